"""Routes, neighbours and devices that programs find by bpf_fib_lookup: what a test says there are."""

from __future__ import annotations

import functools
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_interface, ip_network
from typing import TYPE_CHECKING, overload

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, closest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network

LOCAL_TABLE, MAIN_TABLE, DEFAULT_TABLE = 255, 254, 253
#: Kinds of routes that no packet is sent by.
_ERRORS = ("blackhole", "unreachable", "prohibit", "throw")
_KINDS = ("unicast", "local", "broadcast", "multicast", "anycast", *_ERRORS)
#: Metrics of routes to IPv6 networks, where none is given and where an address brings them along.
_USER, _CONNECTED = 1024, 256

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Device:
    """A network device: its index, hardware address, own addresses with their networks ("10.0.0.1/24").

    Each address brings the routes that the kernel makes for it. `forwards` is whether packets that come in here are
    sent on (net.ipv4.conf.DEVICE.forwarding). Its MTU is `machine.mtus[index]`, else 1500.
    """

    index: int
    hardware: str = "02:00:00:00:00:01"
    addresses: tuple[str, ...] = ()
    forwards: bool = True


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a network: out of a device, to the next hop `via` if it is not there directly.

    `kind` is ip(8)'s word for its type, `metric` by default 0 (IPv6: 1024), `source` the address that packets of this
    machine get, `mtu` what "mtu lock" says, `encapsulated` whether the route has a lightweight tunnel.
    """

    to: str
    device: int = 1
    via: str = ""
    kind: str = "unicast"
    metric: int = 0
    table: int = MAIN_TABLE
    source: str = ""
    mtu: int = 0
    encapsulated: bool = False

    @property
    def network(self) -> IPv4Network | IPv6Network:
        """Network that the route leads to."""
        return _network(self.to)

    @property
    def priority(self) -> int:
        """Its metric as the kernel keeps it."""
        return self.metric or (_USER if isinstance(self.network, IPv6Network) and self.table != LOCAL_TABLE else 0)

    @property
    def next_hop(self) -> Address | None:
        """The gateway's address; None if there is none."""
        return ip_address(self.via) if self.via else None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The hardware address of who has an address, behind a device."""

    device: int
    address: str
    hardware: str


class Routes:
    """The routing tables of a machine, its devices and neighbours."""

    def __init__(self) -> None:
        self.devices: dict[int, Device] = {}
        self.all: list[Route] = []
        self.neighbours: dict[tuple[int, Address], bytes] = {}
        self.add(Device(1, "00:00:00:00:00:00", ("127.0.0.1/8", "::1/128"), forwards=False))

    @overload
    def add(self, made: Device) -> Device: ...

    @overload
    def add(self, made: Route) -> Route: ...

    @overload
    def add(self, made: Neighbour) -> Neighbour: ...

    def add(self, made: Device | Route | Neighbour) -> Device | Route | Neighbour:
        """One more, which look-ups find. InvalidValue for what is not an address or kind, or a device not yet added."""
        if not isinstance(made, Device) and made.device not in self.devices:
            raise InvalidValue(f"no device {made.device}: add(Device({made.device})) first")
        if isinstance(made, Route) and made.kind not in _KINDS:
            raise InvalidValue(f"a route's kind is none of ip(8)'s: {made.kind!r}{closest(made.kind, _KINDS)}")
        try:
            if isinstance(made, Device):
                hardware(made.hardware)
                self.all += _connected(made)
                self.devices[made.index] = made
            elif isinstance(made, Neighbour):
                self.neighbours[made.device, ip_address(made.address)] = hardware(made.hardware)
            else:
                _ = made.network, made.next_hop, made.source and ip_address(made.source)
                self.all.append(made)
        except ValueError as error:
            raise InvalidValue(f"{made}: {error}") from None
        return made

    def find(self, to: Address, *, device: int, output: bool, table: int | None) -> Route | None:
        """The route of a packet that comes in at a device (`output`: is to go out there); in one table, or by all."""
        # As long as nobody adds a rule the kernel keeps the local and the main table of IPv4 as one.
        joined = (LOCAL_TABLE, MAIN_TABLE)
        tables: list[tuple[int, ...]]
        if isinstance(to, IPv6Address):
            tables = [(LOCAL_TABLE,), (MAIN_TABLE,)] if table is None else [(table,)]
        elif table is None:
            default = any(each.table == DEFAULT_TABLE for each in self.all)
            tables = [joined, (DEFAULT_TABLE,)] if default else [joined]
        else:
            tables = [joined if table in joined else (table,)]
        found = None
        for each in tables:
            found = next((r for r in self._matches(to, each, device) if not output or _leaves_by(r, device)), None)
            if found is not None and (found.kind != "throw" or isinstance(to, IPv6Address)):
                break
        return found

    def _matches(self, to: Address, tables: tuple[int, ...], device: int) -> list[Route]:
        """Routes of these tables that lead there, the best first."""
        found = [each for each in self.all if each.table in tables and to in each.network]
        ipv6 = isinstance(to, IPv6Address)
        # IPv6 prefers the packet's device among equals, IPv4 the one that was there first.
        return sorted(found, key=lambda r: (-r.network.prefixlen, -r.table, r.priority, ipv6 and r.device != device))

    def source(self, route: Route, to: Address) -> Address | None:
        """The address of this machine that packets by a route have as their source; None if there is none."""
        if route.source:
            return ip_address(route.source)
        own = [(each, ip_interface(text)) for each in self.devices.values() for text in each.addresses]
        if isinstance(to, IPv6Address):
            usable = [(each, a) for each, a in own if a.version == to.version]
            best = max(
                usable,
                key=lambda e: (
                    not (e[1].ip.is_link_local or e[1].ip.is_loopback),
                    e[0].index == route.device,
                    -(int(e[1].ip) ^ int(to)).bit_length(),
                ),
                default=None,
            )
            return None if best is None else best[1].ip
        global_ = [(each, a) for each, a in own if a.version == to.version and not a.ip.is_loopback]
        here = [a for each, a in global_ if each.index == route.device]
        hop = route.next_hop
        # inet_select_addr(): one in the next hop's network, else the device's first, else any device's.
        for a in [*(a for a in here if hop is None or hop in a.network), *here, *(a for _, a in global_)]:
            return a.ip
        return IPv4Address(0)


def _leaves_by(route: Route, device: int) -> bool:
    """Whether a packet that is to leave by a device takes the route: of IPv6 the device only breaks ties."""
    return route.network.version == 6 or route.kind in _ERRORS or route.device == device


@functools.lru_cache(512)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text)


def _connected(device: Device) -> Iterator[Route]:
    """Routes that the kernel makes for a device's addresses."""
    for text in device.addresses:
        address = ip_interface(text)
        network, own = address.network, str(address.ip)
        full = network.prefixlen == network.max_prefixlen
        yield Route(own, device.index, kind="local", table=LOCAL_TABLE, source=own)
        if address.version == 6:
            if not address.ip.is_loopback:
                yield Route(str(network), device.index, metric=_CONNECTED)
            if device.forwards and network.prefixlen < network.max_prefixlen - 1:
                # The subnet-router anycast address.
                yield Route(str(network.network_address), device.index, kind="anycast", table=LOCAL_TABLE)
        elif not full:
            loop = address.ip.is_loopback
            kind, table = ("local", LOCAL_TABLE) if loop else ("unicast", MAIN_TABLE)
            yield Route(str(network), device.index, kind=kind, table=table, source=own)
            if network.prefixlen < network.max_prefixlen - 1:
                last = str(network.broadcast_address)
                yield Route(last, device.index, kind="broadcast", table=LOCAL_TABLE, source=own)


def hardware(text: str) -> bytes:
    """The six bytes of a hardware address as ip(8) prints it. Raises ValueError for anything else."""
    data = bytes.fromhex(text.replace(":", ""))
    if len(data) != 6:
        raise ValueError(f"{text!r} is not a hardware address such as 02:00:00:00:00:01")
    return data
