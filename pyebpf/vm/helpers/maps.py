"""Helpers on maps, the loops that call back, tail calls' table, spin locks and timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.uapi.errno_table import E2BIG, EAGAIN, EBUSY, EINVAL, ENOENT
from pyebpf.uapi.flags import BPF_F_RDONLY_PROG
from pyebpf.vm.helpers.registry import emulates
from pyebpf.vm.maps.bloom_filter import BloomFilterMap
from pyebpf.vm.maps.cgroup_array import CgroupArrayMap
from pyebpf.vm.maps.local_storage import PerCpuStorageMap, StorageMap
from pyebpf.vm.maps.redirect import RedirectMap
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine
    from pyebpf.vm.maps.base import VmMap

_LOW = 0xFFFF_FFFF
MAX_LOOPS = 8 * 1024 * 1024
"""BPF_MAX_LOOPS of include/linux/bpf.h."""


def _check_written(found: VmMap) -> None:
    """Refuse a change of a map that programs may only read."""
    if found.spec.flags & BPF_F_RDONLY_PROG:
        raise VmError(f"write into map forbidden (map {found.name})")


@emulates("map_lookup_elem")
def map_lookup_elem(vm: Machine, at: int, key: int) -> int:
    """Address of the value on the current processor."""
    found = vm.map_at(at)
    return found.lookup(vm.memory.read(key, found.key_size), vm.cpu)


@emulates("map_lookup_percpu_elem")
def map_lookup_percpu_elem(vm: Machine, at: int, key: int, cpu: int) -> int:
    """Address of a processor's value; NULL for a processor that is not possible."""
    found = vm.map_at(at)
    raw = vm.memory.read(key, found.key_size)
    return found.lookup(raw, cpu & _LOW) if cpu & _LOW < vm.cpus else 0


@emulates("map_update_elem")
def map_update_elem(vm: Machine, at: int, key: int, value: int, flags: int) -> int:
    """Store a value."""
    found = vm.map_at(at)
    _check_written(found)
    raw, data = vm.memory.read(key, found.key_size), vm.memory.read(value, found.value_size)
    return found.update(raw, data, flags, vm.cpu)


@emulates("map_delete_elem")
def map_delete_elem(vm: Machine, at: int, key: int) -> int:
    """Remove a key."""
    found = vm.map_at(at)
    _check_written(found)
    return found.delete(vm.memory.read(key, found.key_size))


@emulates("map_push_elem")
def map_push_elem(vm: Machine, at: int, value: int, flags: int) -> int:
    """Put a value into a queue or stack."""
    found = vm.map_at(at)
    _check_written(found)
    return found.push(vm.memory.read(value, found.value_size), flags)


def _take(vm: Machine, at: int, value: int, *, remove: bool) -> int:
    found = vm.map_at(at)
    if isinstance(found, BloomFilterMap) and not remove:
        return found.holds(vm.memory.read(value, found.value_size))
    if remove:
        _check_written(found)
    data = found.take(remove=remove)
    # Without an item the kernel clears the caller's buffer.
    vm.memory.write(value, bytes(found.value_size) if data is None else data)
    return -ENOENT if data is None else 0


@emulates("map_pop_elem")
def map_pop_elem(vm: Machine, at: int, value: int) -> int:
    """Take a value out of a queue or stack."""
    return _take(vm, at, value, remove=True)


@emulates("map_peek_elem")
def map_peek_elem(vm: Machine, at: int, value: int) -> int:
    """Copy the value that pop would take."""
    return _take(vm, at, value, remove=False)


@emulates("for_each_map_elem")
def for_each_map_elem(vm: Machine, at: int, callback: int, context: int, flags: int) -> int:
    """Call a function with each entry until it returns 1; how many entries it was called with."""
    if flags:
        return -EINVAL
    found, function = vm.map_at(at), vm.function_at(callback)
    count = 0
    for key, value in found.elements(vm.cpu):
        region = Region("map_key", found.name, bytearray(key), writable=False)
        vm.memory.add(region)
        count += 1
        stop = function(at, region.base, value, context)
        vm.memory.remove(region)
        if stop:
            break
    return count


@emulates("loop")
def loop(vm: Machine, count: int, callback: int, context: int, flags: int) -> int:
    """Call a function with 0, 1, … until it returns 1; how many times it was called."""
    if flags:
        return -EINVAL
    count &= _LOW
    if count > MAX_LOOPS:
        # Where flags are a constant 0 the verifier writes the loop out, and this as a 32-bit move.
        return -E2BIG & _LOW
    function = vm.function_at(callback)
    for index in range(count):
        if function(index, context):
            return index + 1
    return count


@emulates("spin_lock")
def spin_lock(vm: Machine, lock: int) -> None:
    """Take a lock; nobody else runs, so that only a second one is refused."""
    if vm.locked is not None:
        raise VmError("Locking two bpf_spin_locks are not allowed")
    vm.memory.read(lock, 4)
    vm.locked = lock


@emulates("spin_unlock")
def spin_unlock(vm: Machine, lock: int) -> None:
    """Give the lock back."""
    if vm.locked != lock:
        raise VmError("bpf_spin_unlock without taking a lock, or of a different lock")
    vm.locked = None


@emulates("timer_init")
def timer_init(vm: Machine, timer: int, at: int, flags: int) -> int:
    """Make a timer of a map's value. `flags`: CLOCK_REALTIME 0, CLOCK_MONOTONIC 1, CLOCK_BOOTTIME 7."""
    vm.memory.read(timer, 16)
    if flags not in (0, 1, 7):
        return -EINVAL
    return 0 if vm.timers.init(timer, vm.map_at(at)) else -EBUSY


@emulates("timer_set_callback")
def timer_set_callback(vm: Machine, timer: int, callback: int) -> int:
    """Say what runs when the timer is due."""
    return 0 if vm.timers.set_callback(timer, callback) else -EINVAL


@emulates("timer_start")
def timer_start(vm: Machine, timer: int, nsecs: int, flags: int) -> int:
    """Let the timer be due `nsecs` from now, or with BPF_F_TIMER_ABS at that time; `Machine.fire` runs it."""
    due = nsecs if flags & 1 else vm.peek_time() + nsecs
    return 0 if not flags & ~3 and vm.timers.start(timer, due) else -EINVAL


@emulates("timer_cancel")
def timer_cancel(vm: Machine, timer: int) -> int:
    """Stop the timer; 1 if it was started."""
    state = vm.timers.cancel(timer)
    return -EINVAL if state is None else int(state)


@emulates("per_cpu_ptr")
def per_cpu_ptr(vm: Machine, address: int, cpu: int) -> int:
    """Address of a kernel variable on a processor: the same one for all, NULL for one that is not possible."""
    return address if cpu & _LOW < vm.cpus else 0


@emulates("this_cpu_ptr")
def this_cpu_ptr(_vm: Machine, address: int) -> int:
    """Address of a kernel variable on this processor."""
    return address


def _storage(vm: Machine, at: int) -> StorageMap:
    found = vm.map_at(at)
    if not isinstance(found, StorageMap):
        raise VmError(f"cannot pass map_type {found.spec.type} into a function on storage ({found.name})")
    return found


@emulates("task_storage_get", "sk_storage_get", "inode_storage_get", "cgrp_storage_get")
def storage_get(vm: Machine, at: int, owner: int, value: int, flags: int) -> int:
    """Address of a kernel object's value; with BPF_LOCAL_STORAGE_GET_F_CREATE (1) it is made from `value`, or zeros."""
    found = _storage(vm, at)
    if flags & ~1:
        return 0
    initial = vm.memory.read(value, found.value_size) if value else bytes(found.value_size)
    return found.get(owner, create=initial if flags else None)


@emulates("task_storage_delete", "sk_storage_delete", "inode_storage_delete", "cgrp_storage_delete")
def storage_delete(vm: Machine, at: int, owner: int) -> int:
    """Remove a kernel object's value."""
    return _storage(vm, at).drop(owner) if owner else -EINVAL


@emulates("get_local_storage")
def get_local_storage(vm: Machine, at: int, _flags: int) -> int:
    """Address of the value of the control group that the program is attached to, zeros at first."""
    found = _storage(vm, at)
    owner = found.place(vm.cgroup_id, vm.cpu) if isinstance(found, PerCpuStorageMap) else vm.cgroup_id
    return found.get(owner, create=bytes(found.value_size))


@emulates("current_task_under_cgroup")
def current_task_under_cgroup(vm: Machine, at: int, index: int) -> int:
    """Whether the machine's control group is the one under an index."""
    found = vm.map_at(at)
    if not isinstance(found, CgroupArrayMap):
        raise VmError(f"cannot pass map_type {found.spec.type} into a function on control groups ({found.name})")
    index &= _LOW
    if index >= found.max_entries:
        return -E2BIG
    group = found.groups.get(index)
    return -EAGAIN if group is None else int(group == vm.cgroup_id)


@emulates("skb_under_cgroup")
def skb_under_cgroup(vm: Machine, _skb: int, at: int, index: int) -> int:
    """The same of the packet's socket."""
    return current_task_under_cgroup(vm, at, index)


@emulates("redirect_map")
def redirect_map(vm: Machine, at: int, key: int, flags: int) -> int:
    """XDP_REDIRECT if the map has the key, else the verdict in the flags' lowest two bits; XDP_ABORTED for others."""
    found = vm.map_at(at)
    if not isinstance(found, RedirectMap):
        raise VmError(f"cannot pass map_type {found.spec.type} into func bpf_redirect_map ({found.name})")
    if flags & ~0x1B:
        return 0
    raw = (key & _LOW).to_bytes(4, "little")
    return 4 if found.lookup_elem(raw) is not None else flags & 3
