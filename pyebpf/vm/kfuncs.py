"""Kernel functions that the compiler's programs call. The caller gives stubs for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.vm.helpers.maps import MAX_LOOPS
from pyebpf.vm.maps.base import E2BIG, EINVAL
from pyebpf.vm.maps.others import ArenaMap
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.vm.machine import Machine

__all__ = ["KFUNCS"]


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
    """What only the kernel's other processors would notice."""


KFUNCS: dict[str, Callable[..., int | None]] = {
    "bpf_iter_num_new": bpf_iter_num_new,
    "bpf_iter_num_next": bpf_iter_num_next,
    "bpf_iter_num_destroy": bpf_iter_num_destroy,
    "bpf_session_is_return": bpf_session_is_return,
    "bpf_session_cookie": bpf_session_cookie,
    "bpf_arena_alloc_pages": bpf_arena_alloc_pages,
    "bpf_arena_free_pages": bpf_arena_free_pages,
    **dict.fromkeys(
        ("bpf_rcu_read_lock", "bpf_rcu_read_unlock", "bpf_preempt_disable", "bpf_preempt_enable"), _nothing
    ),
}
"""By name: functions of the machine and as many registers as they take."""
