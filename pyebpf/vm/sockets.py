"""Sockets that programs find: what a test says there are, laid out as `struct bpf_sock`."""

from __future__ import annotations

from ipaddress import ip_address
from struct import pack, pack_into
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass, field
from pyebpf.errors import InvalidValue, closest
from pyebpf.uapi.network import AddressFamily, TcpState
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = {"tcp": (1, 6), "udp": (2, 17)}
_FAMILIES = {4: AddressFamily.INET, 6: AddressFamily.INET6}
_SIZE = 80
_V4, _V6 = 12, 36
#: struct bpf_sock's plain members, and struct bpf_tcp_sock's (include/uapi/linux/bpf.h): name to offset.
_NUMBERS = {"bound_dev_if": 0, "mark": 16, "priority": 20, "state": 72, "rx_queue_mapping": 76}
_TCP = (
    "snd_cwnd", "srtt_us", "rtt_min", "snd_ssthresh", "rcv_nxt", "snd_nxt", "snd_una", "mss_cache", "ecn_flags",
    "rate_delivered", "rate_interval_us", "packets_out", "retrans_out", "total_retrans", "segs_in", "data_segs_in",
    "segs_out", "data_segs_out", "lost_out", "sacked_out", "", "", "", "", "dsack_dups", "delivered", "delivered_ce",
    "icsk_retransmits",
)  # fmt: skip
_TCP_WIDE = {"bytes_received": 80, "bytes_acked": 88}
_TCP_SIZE = 112


@dataclass(frozen=True, slots=True)
class Socket:
    """A socket: `local` and `remote` are (address, port), the remote one None if it listens or is not connected.

    `fields` are members of struct bpf_sock by name (mark, priority, state ...), `tcp` of struct bpf_tcp_sock.
    """

    protocol: str
    local: tuple[str, int]
    remote: tuple[str, int] | None = None
    cookie: int = 0
    uid: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    tcp: Mapping[str, int] = field(default_factory=dict)

    @property
    def listens(self) -> bool:
        """Whether it waits for connections, or is bound to no peer."""
        return self.remote is None

    def to_bytes(self) -> bytes:
        """Its struct bpf_sock."""
        if self.protocol not in _TYPES:
            raise InvalidValue(f"a socket's protocol is tcp or udp, not {self.protocol!r}")
        data = bytearray(_SIZE)
        address = ip_address(self.local[0])
        pack_into("<III", data, 4, _FAMILIES[address.version], *_TYPES[self.protocol])
        _put(data, 24, 28, self.local[0])
        pack_into("<I", data, 44, self.local[1])
        if self.remote is not None:
            pack_into(">H", data, 48, self.remote[1])
            _put(data, 52, 56, self.remote[0])
        connected = self.protocol == "tcp" and not self.listens
        unconnected = TcpState.LISTEN if self.protocol == "tcp" else TcpState.CLOSE
        default = TcpState.ESTABLISHED if connected else unconnected
        for name, value in {"state": default, **self.fields}.items():
            if name not in _NUMBERS:
                raise InvalidValue(f"struct bpf_sock has no member {name} to be given{closest(name, _NUMBERS)}")
            pack_into("<I", data, _NUMBERS[name], value)
        return bytes(data)

    def tcp_bytes(self) -> bytes:
        """Its struct bpf_tcp_sock."""
        data = bytearray(_TCP_SIZE)
        for name, value in self.tcp.items():
            if name in _TCP_WIDE:
                data[_TCP_WIDE[name] : _TCP_WIDE[name] + 8] = pack("<Q", value)
            elif name in _TCP:
                pack_into("<I", data, 4 * _TCP.index(name), value)
            else:
                raise InvalidValue(f"struct bpf_tcp_sock has no member {name}{closest(name, (*_TCP, *_TCP_WIDE))}")
        return bytes(data)


def _put(data: bytearray, v4: int, v6: int, address: str) -> None:
    raw = ip_address(address).packed
    start = v4 if len(raw) == 4 else v6
    data[start : start + len(raw)] = raw


class Sockets:
    """The sockets of a machine, their memory, and who holds a reference."""

    def __init__(self) -> None:
        self.all: list[Socket] = []
        self._regions: dict[int, tuple[Socket, Region]] = {}
        #: References that a program took and has not given back, by address.
        self.held: dict[int, int] = {}

    def add(self, socket: Socket) -> Socket:
        """One more, which look-ups find."""
        self.all.append(socket)
        return socket

    def match(self, protocol: str, key: bytes) -> Socket | None:
        """The socket that a packet of this tuple belongs to: a connected one first, then one that listens.

        `key` is struct bpf_sock_tuple's ipv4 or ipv6: source and destination address, source and destination port.
        """
        size = 4 if len(key) == _V4 else 16
        remote, local = (str(ip_address(key[at : at + size])) for at in (0, size))
        ports = [int.from_bytes(key[at : at + 2], "big") for at in (2 * size, 2 * size + 2)]
        here = [each for each in self.all if each.protocol == protocol and self._is_local(each, local, ports[1])]
        for each in here:
            if each.remote is not None and (_same(each.remote[0], remote), each.remote[1]) == (True, ports[0]):
                return each
        return next((each for each in here if each.listens), None)

    @staticmethod
    def _is_local(socket: Socket, address: str, port: int) -> bool:
        own = ip_address(socket.local[0])
        return socket.local[1] == port and (own.is_unspecified or _same(str(own), address))

    def region(self, socket: Socket) -> Region:
        """Its memory, made when it is first asked for."""
        for found, region in self._regions.values():
            if found is socket:
                return region
        return Region("sock", "socket", bytearray(socket.to_bytes()), writable=False)

    def note(self, address: int, socket: Socket, region: Region) -> None:
        """Its memory has this address."""
        self._regions[address] = (socket, region)

    def at(self, address: int) -> Socket | None:
        """The socket at an address."""
        found = self._regions.get(address)
        return None if found is None else found[0]


def _same(left: str, right: str) -> bool:
    return ip_address(left) == ip_address(right)
