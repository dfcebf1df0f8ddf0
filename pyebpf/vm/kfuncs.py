"""Kernel functions that the compiler's programs call. The caller gives stubs for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.uapi.errno_table import E2BIG, EFAULT, EINVAL
from pyebpf.vm import cpumasks, kobjects
from pyebpf.vm.helpers.dynptr import Dynptr, dynptr_at, make_dynptr
from pyebpf.vm.helpers.maps import MAX_LOOPS
from pyebpf.vm.maps.arena import ArenaMap
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.vm.machine import Machine

_BITS_MOST = 511
"""BITS_ITER_NR_WORDS_MAX of kernel/bpf/helpers.c."""


def _s32(value: int) -> int:
    return ((value & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000


def bpf_iter_num_new(vm: Machine, iterator: int, start: int, end: int) -> int:
    """Begin to count from `start` up to, not including, `end`. kernel/bpf/bpf_iter.c."""
    first, last = _s32(start), _s32(end)
    error = -EINVAL if first > last else -E2BIG if last - first > MAX_LOOPS else 0
    if error:
        first = last = 0
    region = Region("mem", "number", bytearray(4), writable=False)
    vm.memory.add(region)
    vm.iterators[iterator] = (region, first, last)
    vm.memory.write(iterator, region.base.to_bytes(8, "little"))
    return error


def bpf_iter_num_next(vm: Machine, iterator: int) -> int:
    """Address of the next number, NULL after the last."""
    if iterator not in vm.iterators:
        raise VmError("expected an initialized iter_num as arg #0")
    region, current, last = vm.iterators[iterator]
    if current >= last:
        return 0
    region.data[:] = (current & 0xFFFF_FFFF).to_bytes(4, "little")
    vm.iterators[iterator] = (region, current + 1, last)
    return region.base


def bpf_iter_num_destroy(vm: Machine, iterator: int) -> None:
    """End counting."""
    if iterator not in vm.iterators:
        raise VmError("expected an initialized iter_num as arg #0")
    vm.memory.remove(vm.iterators.pop(iterator)[0])


def bpf_iter_bits_new(vm: Machine, iterator: int, at: int, words: int) -> int:
    """Begin to go through the bits that are set in `words` numbers of 64 bits."""
    words &= 0xFFFF_FFFF
    found = vm.memory.peek(at, 8 * words) if at and 0 < words <= _BITS_MOST else b""
    error = -EINVAL if not at or not words else -E2BIG if words > _BITS_MOST else 0 if found else -EFAULT
    region = Region("mem", "bit", bytearray(4), writable=False)
    vm.memory.add(region)
    vm.iterators[iterator] = (region, int.from_bytes(found or b"", "little"), 0)
    vm.memory.write(iterator, region.base.to_bytes(8, "little") + bytes(8))
    return error


def bpf_iter_bits_next(vm: Machine, iterator: int) -> int:
    """Address of the next bit's number, NULL after the last."""
    if iterator not in vm.iterators:
        raise VmError("expected an initialized iter_bits as arg #0")
    region, left, _ = vm.iterators[iterator]
    if not left:
        return 0
    region.data[:] = ((left & -left).bit_length() - 1).to_bytes(4, "little")
    vm.iterators[iterator] = (region, left & (left - 1), 0)
    return region.base


def bpf_iter_bits_destroy(vm: Machine, iterator: int) -> None:
    """End it."""
    if iterator not in vm.iterators:
        raise VmError("expected an initialized iter_bits as arg #0")
    vm.memory.remove(vm.iterators.pop(iterator)[0])


def bpf_rdonly_cast(vm: Machine, address: int, _type: int) -> int:
    """The same address; from here on kernel memory may be loaded from, as zeros where there is none."""
    vm.memory.trusted = True
    return address


def bpf_dynptr_from_packet(vm: Machine, _context: int, flags: int, at: int) -> int:
    """Stand for the whole packet."""
    size = len(vm.packet_data())
    assert vm.packet is not None
    start = vm.packet.region.base + vm.packet.metadata
    make_dynptr(vm, at, Dynptr(0 if flags else start, 0 if flags else size, vm.packet.region.writable, packet=True))
    return -EINVAL if flags else 0


def bpf_dynptr_slice(vm: Machine, at: int, offset: int, _buffer: int, size: int) -> int:
    """Address of a part, NULL if it is not all inside. Packets are in one piece here: the buffer is not needed."""
    pointer, offset = dynptr_at(vm, at), offset & 0xFFFF_FFFF
    inside = pointer.address and offset + (size & 0xFFFF_FFFF) <= pointer.size
    return pointer.address + offset if inside else 0


def bpf_dynptr_size(vm: Machine, at: int) -> int:
    """Its size; -EINVAL for one that could not be made."""
    pointer = dynptr_at(vm, at)
    return pointer.size if pointer.address else -EINVAL


def bpf_dynptr_is_null(vm: Machine, at: int) -> int:
    """Whether it could not be made."""
    return int(not dynptr_at(vm, at).address)


def bpf_arena_alloc_pages(vm: Machine, at: int, _address: int, count: int, _node: int, flags: int) -> int:
    """User address of zeroed pages of an arena; NULL if there are not as many."""
    found = vm.map_at(at)
    count &= 0xFFFF_FFFF
    return found.allocate(count) if isinstance(found, ArenaMap) and not flags and count else 0


def bpf_arena_free_pages(vm: Machine, at: int, address: int, count: int) -> None:
    """Give pages of an arena back."""
    found = vm.map_at(at)
    if isinstance(found, ArenaMap):
        found.free(address, count & 0xFFFF_FFFF)


def bpf_session_is_return(vm: Machine) -> int:
    """Whether a kprobe session's program runs at the return."""
    return int(vm.returning)


def bpf_session_cookie(vm: Machine) -> int:
    """Address of the eight bytes that the runs of a session at entry and return share."""
    return vm.session.base or vm.memory.add(vm.session)


def _nothing(_vm: Machine) -> None:
    """Do nothing: only the kernel's other processors would notice."""


KFUNCS: dict[str, Callable[..., int | None]] = {
    "bpf_iter_num_new": bpf_iter_num_new,
    "bpf_iter_num_next": bpf_iter_num_next,
    "bpf_iter_num_destroy": bpf_iter_num_destroy,
    "bpf_iter_bits_new": bpf_iter_bits_new,
    "bpf_iter_bits_next": bpf_iter_bits_next,
    "bpf_iter_bits_destroy": bpf_iter_bits_destroy,
    "bpf_rdonly_cast": bpf_rdonly_cast,
    "bpf_dynptr_from_xdp": bpf_dynptr_from_packet,
    "bpf_dynptr_from_skb": bpf_dynptr_from_packet,
    "bpf_dynptr_slice": bpf_dynptr_slice,
    "bpf_dynptr_size": bpf_dynptr_size,
    "bpf_dynptr_is_null": bpf_dynptr_is_null,
    **cpumasks.KFUNCS,
    **kobjects.KFUNCS,
    "bpf_session_is_return": bpf_session_is_return,
    "bpf_session_cookie": bpf_session_cookie,
    "bpf_arena_alloc_pages": bpf_arena_alloc_pages,
    "bpf_arena_free_pages": bpf_arena_free_pages,
    **dict.fromkeys(
        ("bpf_rcu_read_lock", "bpf_rcu_read_unlock", "bpf_preempt_disable", "bpf_preempt_enable"), _nothing
    ),
}
"""By name: functions of the machine and as many registers as they take."""
