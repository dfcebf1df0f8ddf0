"""Helpers on packets: copying, growing and shrinking, checksums, redirecting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.uapi.errno_table import EACCES, EFAULT, EINVAL
from pyebpf.uapi.flags import BPF_F_INGRESS
from pyebpf.uapi.tc import TC_ACT_REDIRECT, TC_ACT_SHOT
from pyebpf.uapi.verdicts import XDP_ABORTED, XDP_REDIRECT
from pyebpf.vm.helpers.registry import emulates

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine

_LOW = 0xFFFF_FFFF
#: Room in front of a frame less struct xdp_frame, which the kernel keeps there. Linux 6.1 gives 32 bytes at most.
_META_MOST = 216


@emulates("skb_load_bytes")
def skb_load_bytes(vm: Machine, _skb: int, offset: int, to: int, size: int) -> int:
    """Copy bytes of the packet; -EFAULT and zeros if they are not all there."""
    offset, size = offset & _LOW, size & _LOW
    packet = vm.packet_data()
    if offset > 0x7FFF_FFFF or offset + size > len(packet):
        vm.memory.write(to, bytes(size))
        return -EFAULT
    vm.memory.write(to, bytes(packet[offset : offset + size]))
    return 0


@emulates("skb_store_bytes")
def skb_store_bytes(vm: Machine, _skb: int, offset: int, source: int, size: int, flags: int) -> int:
    """Change bytes of the packet."""
    offset, size = offset & _LOW, size & _LOW
    if flags & ~3:
        return -EINVAL
    data, packet = vm.memory.read(source, size), vm.packet_data()
    if offset > 0x7FFF_FFFF or offset + size > len(packet):
        return -EFAULT
    packet[offset : offset + size] = data
    return 0


@emulates("skb_pull_data")
def skb_pull_data(vm: Machine, _skb: int, size: int) -> int:
    """All data is in one piece already; pointers to it end here all the same."""
    if size & _LOW > len(vm.packet_data()):
        return -12  # ENOMEM, as the kernel says
    vm.move_packet(0, 0)
    return 0


def _resize(vm: Machine, head: int, tail: int) -> int:
    length = len(vm.packet_data()) - head + tail
    if length < 14 or head < -256:
        return -EINVAL
    vm.move_packet(head, tail)
    return 0


@emulates("xdp_adjust_head")
def xdp_adjust_head(vm: Machine, _xdp: int, delta: int) -> int:
    """Cut bytes off at the front, or with a negative number add zeros."""
    return _resize(vm, _signed(delta), 0)


@emulates("xdp_adjust_tail")
def xdp_adjust_tail(vm: Machine, _xdp: int, delta: int) -> int:
    """Add zeros at the end, or with a negative number cut bytes off."""
    return _resize(vm, 0, _signed(delta))


@emulates("xdp_adjust_meta")
def xdp_adjust_meta(vm: Machine, _xdp: int, delta: int) -> int:
    """Make room in front of the frame, of zeros, or with a positive number less."""
    assert vm.packet is not None
    delta = _signed(delta)
    size = vm.packet.metadata - delta
    if not 0 <= size <= _META_MOST:
        return -EINVAL
    if size % 4:
        return -EACCES
    vm.move_packet(0, 0, -delta)
    return 0


@emulates("redirect")
def redirect(vm: Machine, _ifindex: int, flags: int) -> int:
    """Return what the program is to return to send the packet elsewhere."""
    if vm.xdp:
        return XDP_ABORTED if flags else XDP_REDIRECT
    return TC_ACT_SHOT if flags & ~BPF_F_INGRESS else TC_ACT_REDIRECT


@emulates("csum_diff")
def csum_diff(vm: Machine, old: int, old_size: int, new: int, new_size: int, seed: int) -> int:
    """One's complement sum of `new` less that of `old`, with `seed`, folded to 16 bits: the checksum's difference.

    Since Linux 6.13 the result is folded; before, it was some 32-bit number with that sum. Zero has two forms, 0 and
    0xffff: which one comes out follows from the kernel's order of operations, as csum_partial() has it on x86-64.
    Before 6.13, too, more than 512 bytes and sizes that are no multiples of 4 were -EINVAL.
    """
    old_size, new_size = old_size & _LOW, new_size & _LOW
    seed &= _LOW
    before, after = vm.memory.read(old, old_size), vm.memory.read(new, new_size)
    if before and after:
        total = _carried(_partial(after, seed) + (_partial(before, 0) ^ _LOW))
    elif before:
        total = _partial(before, seed ^ _LOW) ^ _LOW
    else:
        total = _partial(after, seed)
    # csum_from32to16
    total += total >> 16 | (total << 16 & _LOW)
    return total >> 16 & 0xFFFF


def _partial(data: bytes, seed: int) -> int:
    """`csum_partial`: the one's complement sum of the 32-bit words and `seed`; 0 only if all of them are."""
    return _carried(seed + sum(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)))


def _carried(total: int) -> int:
    while total >> 32:
        total = (total & _LOW) + (total >> 32)
    return total


def _signed(value: int) -> int:
    return ((value & _LOW) ^ 0x8000_0000) - 0x8000_0000
