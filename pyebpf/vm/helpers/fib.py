"""bpf_fib_lookup: which way a packet is to go, by the routes of the machine. net/core/filter.c, Linux 6.18."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import pack_into, unpack_from
from typing import TYPE_CHECKING

from pyebpf.uapi import flags as uapi
from pyebpf.uapi.errno_table import EAFNOSUPPORT, EINVAL, ENODEV
from pyebpf.uapi.network import AddressFamily
from pyebpf.vm.helpers.frames import device_mtu, is_segmented
from pyebpf.vm.helpers.registry import emulates
from pyebpf.vm.routes import MAIN_TABLE, hardware

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine
    from pyebpf.vm.routes import Route, Routes

_LOW = 0xFFFF_FFFF
#: struct bpf_fib_lookup: offsets of its members.
_SIZE = 64
_TOTAL, _DEVICE, _METRIC, _SOURCE, _DESTINATION, _VLAN, _TABLE, _OWN_MAC, _MAC = 6, 8, 12, 16, 32, 48, 48, 52, 58
_FLAGS = (
    uapi.BPF_FIB_LOOKUP_DIRECT
    | uapi.BPF_FIB_LOOKUP_OUTPUT
    | uapi.BPF_FIB_LOOKUP_SKIP_NEIGH
    | uapi.BPF_FIB_LOOKUP_TBID
    | uapi.BPF_FIB_LOOKUP_SRC
    | uapi.BPF_FIB_LOOKUP_MARK
)
_REFUSALS = {
    "blackhole": uapi.BPF_FIB_LKUP_RET_BLACKHOLE,
    "unreachable": uapi.BPF_FIB_LKUP_RET_UNREACHABLE,
    "prohibit": uapi.BPF_FIB_LKUP_RET_PROHIBIT,
}
#: IP_MAX_MTU, IP6_MAX_MTU, IPV6_MIN_MTU; Ethernet's header and a VLAN tag.
_IPV4_MOST, _IPV6_MOST, _IPV6_LEAST, _HEADERS = 0xFFFF, 0xFFFF + 40, 1280, 14 + 4


@emulates("fib_lookup")
def fib_lookup(vm: Machine, _context: int, at: int, size: int, flags: int) -> int:
    """Fill in the device, the next hop and both hardware addresses, by `machine.routes`; BPF_FIB_LKUP_RET_*."""
    flags &= _LOW
    if size & _LOW < _SIZE or flags & ~_FLAGS:
        return -EINVAL
    found = bytearray(vm.memory.read(at, _SIZE))
    if found[0] not in (AddressFamily.INET, AddressFamily.INET6):
        return -EAFNOSUPPORT
    sized = vm.xdp or found[_TOTAL : _TOTAL + 2] != bytes(2)
    code = _look_up(vm, found, flags, sized=sized)
    if code == uapi.BPF_FIB_LKUP_RET_SUCCESS and not sized:
        # Without a length the packet itself is compared with the device that it is to leave by.
        mtu = device_mtu(vm, _member(found, _DEVICE)) or 0
        if len(vm.packet_data()) > mtu + _HEADERS and not is_segmented(vm):
            code = uapi.BPF_FIB_LKUP_RET_FRAG_NEEDED
        pack_into("<H", found, _TOTAL, mtu & 0xFFFF)
    vm.memory.write(at, bytes(found))
    return code


def _member(params: bytearray, at: int) -> int:
    value: int = unpack_from("<I", params, at)[0]
    return value


def _put(params: bytearray, at: int, address: IPv4Address | IPv6Address) -> None:
    params[at : at + len(address.packed)] = address.packed


def _look_up(vm: Machine, params: bytearray, flags: int, *, sized: bool) -> int:
    routes: Routes = vm.routes
    size = 4 if params[0] == AddressFamily.INET else 16
    to = ip_address(bytes(params[_DESTINATION : _DESTINATION + size]))
    origin = ip_address(bytes(params[_SOURCE : _SOURCE + size]))
    if isinstance(to, IPv6Address) and (_is_local(to) or _is_local(origin)):
        return uapi.BPF_FIB_LKUP_RET_NOT_FWDED
    here = _member(params, _DEVICE)
    device = routes.devices.get(here)
    if device is None:
        return -ENODEV
    if not device.forwards:
        return uapi.BPF_FIB_LKUP_RET_FWD_DISABLED
    table = None
    if flags & uapi.BPF_FIB_LOOKUP_DIRECT:
        table = MAIN_TABLE
        if flags & uapi.BPF_FIB_LOOKUP_TBID:
            table = _member(params, _TABLE)
            pack_into("<I", params, _TABLE, 0)
    route = routes.find(to, device=here, output=bool(flags & uapi.BPF_FIB_LOOKUP_OUTPUT), table=table)
    if route is None or route.kind != "unicast":
        return _REFUSALS.get("" if route is None else route.kind, uapi.BPF_FIB_LKUP_RET_NOT_FWDED)
    mtu = 0
    if sized:
        mtu = _route_mtu(vm, route)
        if int.from_bytes(params[_TOTAL : _TOTAL + 2], "little") > mtu:
            pack_into("<H", params, _TOTAL, mtu & 0xFFFF)
            return uapi.BPF_FIB_LKUP_RET_FRAG_NEEDED
    if route.encapsulated:
        return uapi.BPF_FIB_LKUP_RET_UNSUPP_LWT
    pack_into("<II", params, _DEVICE, route.device, route.priority)
    return _next_hop(routes, params, route, to, flags, mtu)


def _next_hop(
    routes: Routes, params: bytearray, route: Route, to: IPv4Address | IPv6Address, flags: int, mtu: int
) -> int:
    hop = route.next_hop
    if isinstance(to, IPv6Address) and hop is not None:
        _put(params, _DESTINATION, hop)
    if flags & uapi.BPF_FIB_LOOKUP_SRC:
        source = routes.source(route, to)
        if source is None:
            return uapi.BPF_FIB_LKUP_RET_NO_SRC_ADDR
        _put(params, _SOURCE, source)
    if isinstance(to, IPv4Address) and hop is not None:
        _put(params, _DESTINATION, hop)
        if isinstance(hop, IPv6Address):
            params[0] = AddressFamily.INET6
    if not flags & uapi.BPF_FIB_LOOKUP_SKIP_NEIGH:
        neighbour = routes.neighbours.get((route.device, hop or to))
        if neighbour is None:
            return uapi.BPF_FIB_LKUP_RET_NO_NEIGH
        params[_OWN_MAC : _OWN_MAC + 6] = hardware(routes.devices[route.device].hardware)
        params[_MAC : _MAC + 6] = neighbour
    params[_VLAN : _VLAN + 4] = bytes(4)
    if mtu:
        pack_into("<H", params, _TOTAL, mtu & 0xFFFF)
    return uapi.BPF_FIB_LKUP_RET_SUCCESS


def _is_local(address: IPv4Address | IPv6Address) -> bool:
    """`rt6_need_strict`: addresses that are never forwarded."""
    return address.is_multicast or address.is_link_local or address.is_loopback


def _route_mtu(vm: Machine, route: Route) -> int:
    if route.mtu:
        return route.mtu
    mtu = device_mtu(vm, route.device) or 0
    return min(max(mtu, _IPV6_LEAST), _IPV6_MOST) if route.network.version == 6 else min(mtu, _IPV4_MOST)
