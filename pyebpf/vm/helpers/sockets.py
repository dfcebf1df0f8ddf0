"""Helpers that find sockets and tell of them: those that the machine was given (`machine.sockets.add(Socket(...))`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.uapi.errno_table import EINVAL, ENOENT
from pyebpf.vm.helpers.registry import emulates
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine
    from pyebpf.vm.sockets import Socket

_LOW = 0xFFFF_FFFF
_V4, _V6 = 12, 36
_OVERFLOW_UID = 65534


def _lookup(vm: Machine, protocol: str, at: int, size: int, netns: int, flags: int) -> int:
    size &= _LOW
    # BPF_F_CURRENT_NETNS is -1; any other namespace has no sockets here.
    signed = netns - (1 << 64) if netns >> 63 else netns
    if size not in (_V4, _V6) or flags or signed > 0x7FFF_FFFF or signed >= 0:
        return 0
    found = vm.sockets.match(protocol, vm.memory.read(at, size))
    if found is None:
        return 0
    address = _address(vm, found)
    vm.sockets.held[address] = vm.sockets.held.get(address, 0) + 1
    return address


def _address(vm: Machine, socket: Socket) -> int:
    region = vm.sockets.region(socket)
    if not region.base:
        vm.sockets.note(vm.memory.add(region), socket, region)
    return region.base


@emulates("sk_lookup_tcp", "skc_lookup_tcp")
def sk_lookup_tcp(vm: Machine, _context: int, at: int, size: int, netns: int, flags: int) -> int:
    """The TCP socket of a packet with this tuple, to be given back by sk_release; NULL if there is none."""
    return _lookup(vm, "tcp", at, size, netns, flags)


@emulates("sk_lookup_udp")
def sk_lookup_udp(vm: Machine, _context: int, at: int, size: int, netns: int, flags: int) -> int:
    """The UDP socket of a packet with this tuple."""
    return _lookup(vm, "udp", at, size, netns, flags)


def _at(vm: Machine, address: int, helper: str) -> Socket:
    found = vm.sockets.at(address)
    if found is None:
        raise VmError(f"R1 type=scalar expected=sock: {address:#x} is not a socket (bpf_{helper})")
    return found


@emulates("sk_release")
def sk_release(vm: Machine, address: int) -> int:
    """Give a reference back."""
    _at(vm, address, "sk_release")
    if not vm.sockets.held.get(address):
        raise VmError("release of unowned socket: bpf_sk_release without a look-up, or a second time")
    vm.sockets.held[address] -= 1
    return 0


@emulates("sk_fullsock")
def sk_fullsock(vm: Machine, address: int) -> int:
    """The same socket, all of whose members may be read."""
    _at(vm, address, "sk_fullsock")
    return address


@emulates("tcp_sock", "skc_to_tcp_sock")
def tcp_sock(vm: Machine, address: int) -> int:
    """Its struct bpf_tcp_sock; NULL if it is not a TCP socket."""
    found = _at(vm, address, "tcp_sock")
    if found.protocol != "tcp":
        return 0
    return vm.memory.add(Region("sock", "tcp_sock", bytearray(found.tcp_bytes()), writable=False))


@emulates("get_listener_sock")
def get_listener_sock(vm: Machine, address: int) -> int:
    """The socket itself, if it listens."""
    found = _at(vm, address, "get_listener_sock")
    return address if found.protocol == "tcp" and found.listens else 0


@emulates("get_socket_cookie")
def get_socket_cookie(vm: Machine, at: int) -> int:
    """A socket's cookie; of a context, the one of the packet's or event's socket (`machine.socket`)."""
    found = vm.sockets.at(at) or vm.socket
    return found.cookie if found is not None else 0


@emulates("get_socket_uid")
def get_socket_uid(vm: Machine, _context: int) -> int:
    """Who owns the packet's socket; the overflow user if it has none."""
    return vm.socket.uid if vm.socket is not None else _OVERFLOW_UID


@emulates("get_netns_cookie")
def get_netns_cookie(vm: Machine, _context: int) -> int:
    """The network namespace's cookie."""
    return vm.netns_cookie


@emulates("sk_assign")
def sk_assign(vm: Machine, _context: int, address: int, flags: int) -> int:
    """The socket that the packet goes to, as `machine.assigned`."""
    if flags:
        return -EINVAL
    found = vm.sockets.at(address)
    if found is None:
        return -ENOENT
    vm.assigned = found
    return 0
