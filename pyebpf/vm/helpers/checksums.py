"""Helpers that mend checksums in a packet: one's complement sums, as lib/checksum.c and net/core/utils.c have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.uapi.errno_table import EACCES, EFAULT, EINVAL, ENOTSUPP
from pyebpf.uapi.flags import (
    BPF_F_HDR_FIELD_MASK,
    BPF_F_IPV6,
    BPF_F_MARK_ENFORCE,
    BPF_F_MARK_MANGLED_0,
    BPF_F_PSEUDO_HDR,
)
from pyebpf.vm.helpers.registry import emulates

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.vm.machine import Machine

_LOW, _HALF = 0xFFFF_FFFF, 0xFFFF
_MANGLED_ZERO = 0xFFFF


def _add(left: int, right: int) -> int:
    """`csum_add`: 32 bits with the carry added back."""
    total = left + right
    return (total & _LOW) + (total >> 32)


def _fold(total: int) -> int:
    """`csum_fold`: to 16 bits, inverted."""
    total = (total & _HALF) + (total >> 16)
    total = (total & _HALF) + (total >> 16)
    return ~total & _HALF


def _replaced(checksum: int, old: int, new: int) -> int:
    """`csum_replace4`."""
    return _fold(_add(_add(~checksum & _LOW, ~old & _LOW), new))


def _add16(left: int, right: int) -> int:
    total = left + right
    return (total & _HALF) + (total >> 16)


def _replaced16(checksum: int, old: int, new: int) -> int:
    """`csum_replace2`."""
    return ~_add16(_add16(~checksum & _HALF, ~old & _HALF), new) & _HALF


def _by_difference(checksum: int, difference: int) -> int:
    """`csum_replace_by_diff`."""
    return _fold(_add(difference, ~checksum & _LOW))


def _mended(checksum: int, old: int, new: int, size: int, two_bytes: Callable[[int, int, int], int]) -> int | None:
    """The checksum where `old` became `new`, of 2 or 4 bytes; with 0 `new` is a difference. None for another size."""
    match size:
        case 0 if not old:
            return _by_difference(checksum, new & _LOW)
        case 2:
            return two_bytes(checksum, old & _HALF, new & _HALF)
        case 4:
            return _replaced(checksum, old & _LOW, new & _LOW)
    return None


def _place(vm: Machine, offset: int) -> memoryview | None:
    packet = vm.packet_data()
    offset &= _LOW
    return packet if offset <= _HALF and not offset & 1 and offset + 2 <= len(packet) else None


@emulates("l3_csum_replace")
def l3_csum_replace(vm: Machine, _skb: int, offset: int, old: int, new: int, flags: int) -> int:
    """Mend an IP header's checksum: `old` became `new`, both of flags & 15 bytes; with 0 `new` is a difference."""
    if flags & ~BPF_F_HDR_FIELD_MASK:
        return -EINVAL
    packet = _place(vm, offset)
    if packet is None:
        return -EFAULT
    at = offset & _LOW
    checksum = int.from_bytes(packet[at : at + 2], "little")
    mended = _mended(checksum, old, new, flags & BPF_F_HDR_FIELD_MASK, _replaced16)
    if mended is None:
        return -EINVAL
    packet[at : at + 2] = mended.to_bytes(2, "little")
    return 0


@emulates("l4_csum_replace")
def l4_csum_replace(vm: Machine, _skb: int, offset: int, old: int, new: int, flags: int) -> int:
    """Mend a TCP or UDP checksum; BPF_F_MARK_MANGLED_0 leaves 0 (UDP: there is none) alone, and writes 0xffff for 0."""
    if flags & ~(BPF_F_HDR_FIELD_MASK | BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0 | BPF_F_MARK_ENFORCE | BPF_F_IPV6):
        return -EINVAL
    packet = _place(vm, offset)
    if packet is None:
        return -EFAULT
    at = offset & _LOW
    checksum = int.from_bytes(packet[at : at + 2], "little")
    if flags & BPF_F_MARK_MANGLED_0 and not flags & BPF_F_MARK_ENFORCE and not checksum:
        return 0
    mended = _mended(checksum, old, new, flags & BPF_F_HDR_FIELD_MASK, _replaced)
    if mended is None:
        return -EINVAL
    if flags & BPF_F_MARK_MANGLED_0 and not mended:
        mended = _MANGLED_ZERO
    packet[at : at + 2] = mended.to_bytes(2, "little")
    return 0


@emulates("csum_update")
def csum_update(_vm: Machine, _skb: int, _checksum: int) -> int:
    """Only a card's own checksum (CHECKSUM_COMPLETE) can be updated, which packets have not here."""
    return -ENOTSUPP


@emulates("csum_level")
def csum_level(_vm: Machine, _skb: int, level: int) -> int:
    """Levels that a card has checked (CHECKSUM_UNNECESSARY): none here."""
    return -EINVAL if level > 3 else -EACCES if level == 0 else 0
