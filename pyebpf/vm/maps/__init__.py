"""Maps on Python's dictionaries, with the kernel's rules; one class a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue
from pyebpf.uapi.bpf import MapType
from pyebpf.vm.maps.arrays import ArrayMap, PerCpuArrayMap, PerfEventArrayMap, ProgramArrayMap
from pyebpf.vm.maps.base import VmMap
from pyebpf.vm.maps.buffers import QueueMap, RingBufferMap, StackMap, StackTraceMap, UserRingBufferMap
from pyebpf.vm.maps.hashes import HashMap, LruHashMap, LruPerCpuHashMap, PerCpuHashMap
from pyebpf.vm.maps.others import (
    ArenaMap,
    BloomFilterMap,
    CgroupArrayMap,
    LpmTrieMap,
    MapOfMaps,
    PerCpuStorageMap,
    RedirectMap,
    StorageMap,
    StructOpsMap,
)

if TYPE_CHECKING:
    from pyebpf.specs import MapSpec
    from pyebpf.vm.memory import Memory

__all__ = ["KINDS", "VmMap", "make_map"]

KINDS: dict[int, type[VmMap]] = {
    MapType.HASH: HashMap,
    MapType.ARRAY: ArrayMap,
    MapType.PROG_ARRAY: ProgramArrayMap,
    MapType.PERF_EVENT_ARRAY: PerfEventArrayMap,
    MapType.PERCPU_HASH: PerCpuHashMap,
    MapType.PERCPU_ARRAY: PerCpuArrayMap,
    MapType.STACK_TRACE: StackTraceMap,
    MapType.LRU_HASH: LruHashMap,
    MapType.LRU_PERCPU_HASH: LruPerCpuHashMap,
    MapType.QUEUE: QueueMap,
    MapType.STACK: StackMap,
    MapType.RINGBUF: RingBufferMap,
    MapType.USER_RINGBUF: UserRingBufferMap,
    MapType.LPM_TRIE: LpmTrieMap,
    MapType.BLOOM_FILTER: BloomFilterMap,
    MapType.ARENA: ArenaMap,
    MapType.CGROUP_ARRAY: CgroupArrayMap,
    MapType.PERCPU_CGROUP_STORAGE: PerCpuStorageMap,
    MapType.STRUCT_OPS: StructOpsMap,
    **dict.fromkeys((MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS), MapOfMaps),
    **dict.fromkeys((MapType.DEVMAP, MapType.DEVMAP_HASH, MapType.CPUMAP, MapType.XSKMAP), RedirectMap),
    **dict.fromkeys((MapType.SOCKMAP, MapType.SOCKHASH, MapType.REUSEPORT_SOCKARRAY), RedirectMap),
    **dict.fromkeys((MapType.TASK_STORAGE, MapType.SK_STORAGE, MapType.INODE_STORAGE), StorageMap),
    **dict.fromkeys((MapType.CGRP_STORAGE, MapType.CGROUP_STORAGE), StorageMap),
}
"""Classes by enum bpf_map_type."""


def make_map(spec: MapSpec, memory: Memory, cpus: int) -> VmMap:
    """An emulated map with its initial entries. InvalidValue: a kind that has no emulation."""
    kind = KINDS.get(spec.kind)
    if kind is None:
        raise InvalidValue(f"map {spec.name}: the vm has no maps of kind {spec.kind.name}")
    made = kind(spec, memory, cpus)
    slot = made.value_size + 7 & ~7
    for key, value in spec.initial:
        error = made.write(key, value.ljust(slot, b"\0") * cpus if spec.traits.per_cpu else value)
        if error:
            raise InvalidValue(f"map {spec.name}: the initial entry {key.hex()} gives error {-error}")
    return made
