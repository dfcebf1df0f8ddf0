"""Dynamic pointers: struct bpf_dynptr on the stack stands for memory whose size is known at run time only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.uapi.errno_table import E2BIG, EINVAL
from pyebpf.uapi.flags import BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP
from pyebpf.vm.helpers.output import ring_at, ringbuf_discard, ringbuf_submit
from pyebpf.vm.helpers.registry import emulates
from pyebpf.vm.maps.user_ringbuf import UserRingBufferMap
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine

SIZE = 16
MOST = (1 << 24) - 1
"""DYNPTR_MAX_SIZE of kernel/bpf/helpers.c."""
_WAKEUP = BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP


@dataclass(frozen=True, slots=True)
class Dynptr:
    """`size` bytes at `address`, of a `packet` or not; address 0 for one that could not be made."""

    address: int
    size: int
    writable: bool = True
    packet: bool = False


def make_dynptr(vm: Machine, at: int, made: Dynptr) -> None:
    """Let the 16 bytes at `at` be this one."""
    # What it consists of is the kernel's own; its bytes count as written.
    vm.memory.write(at, bytes(SIZE))
    vm.dynptrs[at] = made


def dynptr_at(vm: Machine, at: int) -> Dynptr:
    """The one that the 16 bytes at `at` are."""
    if at not in vm.dynptrs:
        raise VmError("Expected an initialized dynptr")
    return vm.dynptrs[at]


@emulates("dynptr_from_mem")
def dynptr_from_mem(vm: Machine, data: int, size: int, flags: int, at: int) -> int:
    """Stand for memory of the program, such as a map's value."""
    error = -E2BIG if size & 0xFFFF_FFFF > MOST else -EINVAL if flags else 0
    make_dynptr(vm, at, Dynptr(0 if error else data, size & 0xFFFF_FFFF))
    return error


def _error(pointer: Dynptr, offset: int, size: int, flags: int, *, write: bool = False) -> int:
    if not pointer.address or flags or (write and not pointer.writable):
        return -EINVAL
    return -E2BIG if offset + size > pointer.size else 0


@emulates("dynptr_read")
def dynptr_read(vm: Machine, to: int, size: int, at: int, offset: int, flags: int) -> int:
    """Copy out of it."""
    pointer = dynptr_at(vm, at)
    error = _error(pointer, offset, size, flags)
    if not error:
        vm.memory.write(to, vm.memory.read(pointer.address + offset, size))
    return error


@emulates("dynptr_write")
def dynptr_write(vm: Machine, at: int, offset: int, source: int, size: int, flags: int) -> int:
    """Copy into it."""
    pointer = dynptr_at(vm, at)
    error = _error(pointer, offset, size, flags, write=True)
    if not error:
        vm.memory.write(pointer.address + offset, vm.memory.read(source, size))
    return error


@emulates("dynptr_data")
def dynptr_data(vm: Machine, at: int, offset: int, size: int) -> int:
    """Address of a part, NULL if it is not all inside."""
    pointer = dynptr_at(vm, at)
    # Of a packet, which may be in pieces, only bpf_dynptr_slice() gives addresses.
    return 0 if pointer.packet or _error(pointer, offset, size, 0, write=True) else pointer.address + offset


@emulates("ringbuf_reserve_dynptr")
def ringbuf_reserve_dynptr(vm: Machine, ring: int, size: int, flags: int, at: int) -> int:
    """Reserve a record of any size; even when that fails it must be submitted or discarded."""
    found = ring_at(vm, ring)
    size &= 0xFFFF_FFFF
    error = -EINVAL if flags else -E2BIG if size > MOST else 0
    region = None if error else found.reserve(size)
    make_dynptr(vm, at, Dynptr(0, 0) if region is None else Dynptr(region.base, size))
    return error or (-EINVAL if region is None else 0)


@emulates("ringbuf_submit_dynptr")
def ringbuf_submit_dynptr(vm: Machine, at: int, flags: int) -> None:
    """Send the record."""
    pointer = dynptr_at(vm, at)
    del vm.dynptrs[at]
    if pointer.address:
        ringbuf_submit(vm, pointer.address, flags)


@emulates("ringbuf_discard_dynptr")
def ringbuf_discard_dynptr(vm: Machine, at: int, flags: int) -> None:
    """Give the record up."""
    pointer = dynptr_at(vm, at)
    del vm.dynptrs[at]
    if pointer.address:
        ringbuf_discard(vm, pointer.address, flags)


@emulates("user_ringbuf_drain")
def user_ringbuf_drain(vm: Machine, at: int, callback: int, context: int, flags: int) -> int:
    """Call a function with each sample that user space has sent until it returns 1; how many it took."""
    found, function = vm.map_at(at), vm.function_at(callback)
    if not isinstance(found, UserRingBufferMap):
        raise VmError(f"cannot pass map_type {found.spec.type} into func bpf_user_ringbuf_drain ({found.name})")
    if flags & ~_WAKEUP:
        return -EINVAL
    count, stop = 0, 0
    while found.samples and not stop:
        sample = Region("mem", found.name, bytearray(found.samples.popleft()), writable=False)
        holder = Region("mem", "dynptr", bytearray(SIZE))
        vm.memory.add(sample)
        vm.dynptrs[vm.memory.add(holder)] = Dynptr(sample.base, sample.size, writable=False)
        stop = function(holder.base, context)
        del vm.dynptrs[holder.base]
        vm.memory.remove(holder)
        vm.memory.remove(sample)
        count += 1
    return count
