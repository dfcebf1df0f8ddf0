"""What a map is to be: frozen data, no descriptor."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.specs.described import MapTypes
    from pyebpf.specs.map_kinds import MapRules
    from pyebpf.types import Type

__all__ = ["MapKind", "MapSpec"]


class MapKind(IntEnum):
    """Kinds of maps; values are enum bpf_map_type's. `rules` says what each is like."""

    HASH = 1
    ARRAY = 2
    PROG_ARRAY = 3
    PERF_EVENT_ARRAY = 4
    PERCPU_HASH = 5
    PERCPU_ARRAY = 6
    STACK_TRACE = 7
    CGROUP_ARRAY = 8
    LRU_HASH = 9
    LRU_PERCPU_HASH = 10
    LPM_TRIE = 11
    ARRAY_OF_MAPS = 12
    HASH_OF_MAPS = 13
    DEVMAP = 14
    SOCKMAP = 15
    CPUMAP = 16
    XSKMAP = 17
    SOCKHASH = 18
    CGROUP_STORAGE = 19
    REUSEPORT_SOCKARRAY = 20
    PERCPU_CGROUP_STORAGE = 21
    QUEUE = 22
    STACK = 23
    SK_STORAGE = 24
    DEVMAP_HASH = 25
    STRUCT_OPS = 26
    RINGBUF = 27
    INODE_STORAGE = 28
    TASK_STORAGE = 29
    BLOOM_FILTER = 30
    USER_RINGBUF = 31
    CGRP_STORAGE = 32
    ARENA = 33

    @property
    def rules(self) -> MapRules:
        """What keys, values, sizes, flags and operations maps of this kind have."""
        from pyebpf.specs.map_kinds import RULES

        return RULES[self.name]

    @property
    def per_cpu(self) -> bool:
        """Whether each possible processor has a value of its own."""
        return self in _PER_CPU

    @property
    def is_array(self) -> bool:
        """Whether keys are indices and every entry always exists."""
        return self in _ARRAYS


_PER_CPU = (MapKind.PERCPU_HASH, MapKind.PERCPU_ARRAY, MapKind.LRU_PERCPU_HASH, MapKind.PERCPU_CGROUP_STORAGE)
_ARRAYS = (MapKind.ARRAY, MapKind.PERCPU_ARRAY)


@dataclass(frozen=True, slots=True)
class MapSpec:
    """One map. `name` is what programs call it, 1 to 15 bytes of [A-Za-z0-9_.], unique in its module.

    `key` and `value` are types with codecs; None where the kind has none or fixes them itself (indices, descriptors).
    `max_entries` counts entries (a ring buffer's: bytes, a power of two from 4096 on; a perf event array's: 0
    for one each possible processor). `flags` are BPF_F_*. `initial` entries are written before any program
    runs; `frozen` then closes the map to the system call's writes.

    `numa_node` places the memory (BPF_F_NUMA_NODE). `extra` is the kind's own number: a Bloom filter's hash functions
    (1 to 15; 0 means 5), an arena's address. `inner` is the shape of the maps in a map of maps. `typed` gives the
    kernel BTF of key and value, so that tools such as bpftool show fields. `operations` is the name of the kernel's
    struct_ops structure ("tcp_congestion_ops"). `described` is BTF that there is already, in place of what `typed`
    makes.
    """

    name: str
    kind: MapKind
    key: Type | None
    value: Type | None
    max_entries: int
    flags: int = 0
    initial: tuple[tuple[bytes, bytes], ...] = ()
    frozen: bool = False
    numa_node: int | None = None
    extra: int = 0
    inner: MapSpec | None = None
    typed: bool = False
    operations: str = ""
    described: MapTypes | None = None

    def entries(self, page_size: int) -> int:
        """`max_entries` for a kernel with pages of `page_size` bytes: a ring buffer has at least one."""
        from pyebpf.specs.map_kinds import Entries

        return max(self.max_entries, page_size) if self.kind.rules.entries is Entries.BYTES else self.max_entries

    def check(self, page_size: int = 4096) -> None:
        """Raise InvalidValue, naming the fix, for a shape that no kernel takes."""
        from pyebpf.specs.map_check import check

        check(self, page_size)
