"""Maps on Python's dictionaries, with the kernel's rules; one file a kind."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue
from pyebpf.uapi.bpf import MapType
from pyebpf.vm.maps.base import VmMap

if TYPE_CHECKING:
    from pyebpf.specs import MapSpec
    from pyebpf.vm.memory import Memory

__all__ = ["CLASSES", "VmMap", "make_map"]

CLASSES: dict[MapType, tuple[str, str]] = {
    MapType.HASH: ("hash", "HashMap"),
    MapType.ARRAY: ("array", "ArrayMap"),
    MapType.PROG_ARRAY: ("prog_array", "ProgramArrayMap"),
    MapType.PERF_EVENT_ARRAY: ("perf_event_array", "PerfEventArrayMap"),
    MapType.PERCPU_HASH: ("hash", "PerCpuHashMap"),
    MapType.PERCPU_ARRAY: ("array", "PerCpuArrayMap"),
    MapType.STACK_TRACE: ("stack_trace", "StackTraceMap"),
    MapType.LRU_HASH: ("hash", "LruHashMap"),
    MapType.LRU_PERCPU_HASH: ("hash", "LruPerCpuHashMap"),
    MapType.QUEUE: ("queue", "QueueMap"),
    MapType.STACK: ("queue", "StackMap"),
    MapType.RINGBUF: ("ringbuf", "RingBufferMap"),
    MapType.USER_RINGBUF: ("user_ringbuf", "UserRingBufferMap"),
    MapType.LPM_TRIE: ("lpm_trie", "LpmTrieMap"),
    MapType.BLOOM_FILTER: ("bloom_filter", "BloomFilterMap"),
    MapType.ARENA: ("arena", "ArenaMap"),
    MapType.CGROUP_ARRAY: ("cgroup_array", "CgroupArrayMap"),
    MapType.PERCPU_CGROUP_STORAGE: ("local_storage", "PerCpuStorageMap"),
    MapType.STRUCT_OPS: ("base", "VmMap"),
    **dict.fromkeys((MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS), ("map_in_map", "MapOfMaps")),
    **dict.fromkeys((MapType.DEVMAP, MapType.DEVMAP_HASH, MapType.CPUMAP, MapType.XSKMAP), ("redirect", "RedirectMap")),
    **dict.fromkeys((MapType.SOCKMAP, MapType.SOCKHASH, MapType.REUSEPORT_SOCKARRAY), ("redirect", "RedirectMap")),
    **dict.fromkeys((MapType.TASK_STORAGE, MapType.SK_STORAGE, MapType.INODE_STORAGE), ("local_storage", "StorageMap")),
    **dict.fromkeys((MapType.CGRP_STORAGE, MapType.CGROUP_STORAGE), ("local_storage", "StorageMap")),
}
"""File and class by map type; a class is imported when such a map is made."""


def make_map(spec: MapSpec, memory: Memory, cpus: int) -> VmMap:
    """An emulated map with its initial entries. InvalidValue: a kind that has no emulation."""
    if spec.type not in CLASSES:
        raise InvalidValue(f"map {spec.name}: the interpreter has no maps of type {spec.type.name}")
    file, name = CLASSES[spec.type]
    made: VmMap = getattr(import_module(f"pyebpf.vm.maps.{file}"), name)(spec, memory, cpus)
    slot = made.value_size + 7 & ~7
    for key, value in spec.initial:
        error = made.write(key, value.ljust(slot, b"\0") * cpus if spec.traits.per_cpu else value)
        if error:
            raise InvalidValue(f"map {spec.name}: the initial entry {key.hex()} gives error {-error}")
    return made
