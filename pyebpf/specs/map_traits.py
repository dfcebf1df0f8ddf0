"""The traits of map types: one row a type, which checks specs, drives the loader and makes the table in the docs.

Held to the kernel by tests/kernel/test_maps_kinds.py: the rows' operations were the same in Linux 6.1, 6.12 and 6.18.
"""

from __future__ import annotations

from enum import Enum, IntFlag

from pyebpf.dataclass import dataclass
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import (
    BPF_F_CLONE,
    BPF_F_INNER_MAP,
    BPF_F_LINK,
    BPF_F_MMAPABLE,
    BPF_F_NO_COMMON_LRU,
    BPF_F_NO_PREALLOC,
    BPF_F_NUMA_NODE,
    BPF_F_PRESERVE_ELEMS,
    BPF_F_RDONLY,
    BPF_F_RDONLY_PROG,
    BPF_F_SEGV_ON_FAULT,
    BPF_F_STACK_BUILD_ID,
    BPF_F_VTYPE_BTF_OBJ_FD,
    BPF_F_WRONLY,
    BPF_F_WRONLY_PROG,
    BPF_F_ZERO_SEED,
)


class Key(Enum):
    """Keys of a map; the text is the docs'."""

    ANY = "any fixed size"
    INDEX = "`u32` index"
    NONE = "none"
    PREFIX = "prefix length (`u32`) and 1 to 256 bytes"
    DESCRIPTOR = "descriptor (`s32`)"
    CGROUP = "`struct bpf_cgroup_storage_key` or its `u64` id"


class Value(Enum):
    """Values of a map; the text is the docs'."""

    ANY = "any fixed size"
    NONE = "none"
    DESCRIPTOR = "descriptor (`u32`)"
    SOCKET = "socket: descriptor `u32`, or `u64`, read back as cookie"
    DEVICE = "interface index (`u32`), and a program (`u32`)"
    PROCESSOR = "queue size (`u32`), and a program (`u32`)"
    TRACE = "`u64[N]`, N frames, at most kernel.perf_event_max_stack"
    OPERATIONS = "the kernel's `bpf_struct_ops_NAME`"


class Entries(Enum):
    """The unit of max_entries; the text is the docs'."""

    COUNT = "entries"
    PROCESSORS = "processors (0: all possible ones)"
    BYTES = "bytes: a power of two, at least a page"
    PAGES = "pages"
    ZERO = "0"
    ONE = "1"


class MapOperation(IntFlag):
    """Operations of the bpf(2) commands on the elements of a map."""

    LOOKUP = 1
    UPDATE = 2
    DELETE = 4
    ITERATE = 8
    TAKE = 16
    """Look up and delete in one step."""
    BATCH_LOOKUP = 32
    BATCH_UPDATE = 64
    BATCH_DELETE = 128
    BATCH_TAKE = 256
    MMAP = 512
    """Mapped memory, with BPF_F_MMAPABLE where the kind has a choice."""
    PUSH = 1024
    """Values without keys: push, and peek or test."""
    TYPED = 2048
    """BTF for key and value."""


@dataclass(frozen=True, slots=True, guarded=False)
class MapTraits:
    """Traits of one map type. `flags` are those that it takes (each on its own), `required` those that it must have.

    `since` is the release that brought it; `text` one line for the docs; `per_cpu` a value for each possible processor.
    """

    key: Key
    value: Value
    entries: Entries
    operations: MapOperation
    flags: int
    text: str
    since: str
    per_cpu: bool = False
    required: int = 0
    needs_btf: bool = False
    needs_inner: bool = False

    @property
    def is_array(self) -> bool:
        """Whether keys are indices and every entry always exists."""
        return self.key is Key.INDEX and self.value is Value.ANY


FLAG_NAMES = {
    BPF_F_NO_PREALLOC: "NO_PREALLOC",
    BPF_F_NO_COMMON_LRU: "NO_COMMON_LRU",
    BPF_F_NUMA_NODE: "NUMA_NODE",
    BPF_F_RDONLY: "RDONLY",
    BPF_F_WRONLY: "WRONLY",
    BPF_F_STACK_BUILD_ID: "STACK_BUILD_ID",
    BPF_F_ZERO_SEED: "ZERO_SEED",
    BPF_F_RDONLY_PROG: "RDONLY_PROG",
    BPF_F_WRONLY_PROG: "WRONLY_PROG",
    BPF_F_CLONE: "CLONE",
    BPF_F_MMAPABLE: "MMAPABLE",
    BPF_F_PRESERVE_ELEMS: "PRESERVE_ELEMS",
    BPF_F_INNER_MAP: "INNER_MAP",
    BPF_F_LINK: "LINK",
    BPF_F_VTYPE_BTF_OBJ_FD: "VTYPE_BTF_OBJ_FD",
    BPF_F_SEGV_ON_FAULT: "SEGV_ON_FAULT",
}
"""Names of the flags of MAP_CREATE, without BPF_F_."""

_NUMA, _USER = BPF_F_NUMA_NODE, BPF_F_RDONLY | BPF_F_WRONLY
_PROGRAM = BPF_F_RDONLY_PROG | BPF_F_WRONLY_PROG
_ALL = _NUMA | _USER | _PROGRAM
_BATCH_READ_WRITE = MapOperation.BATCH_LOOKUP | MapOperation.BATCH_UPDATE
_KEYED = MapOperation.LOOKUP | MapOperation.UPDATE | MapOperation.DELETE | MapOperation.ITERATE
_BATCHES = _BATCH_READ_WRITE | MapOperation.BATCH_DELETE | MapOperation.BATCH_TAKE
_HASH = _KEYED | MapOperation.TAKE | _BATCHES | MapOperation.TYPED
_READ_WRITE = MapOperation.LOOKUP | MapOperation.UPDATE | MapOperation.ITERATE
_ARRAY = _READ_WRITE | _BATCH_READ_WRITE | MapOperation.TYPED
_WRITE_ONLY = MapOperation.UPDATE | MapOperation.DELETE | MapOperation.ITERATE
_QUEUE = MapOperation.PUSH | MapOperation.TAKE
_LOCAL = MapOperation.LOOKUP | MapOperation.UPDATE | MapOperation.DELETE | MapOperation.TYPED


def _local(text: str, since: str) -> MapTraits:
    return MapTraits(
        Key.DESCRIPTOR, Value.ANY, Entries.ZERO, _LOCAL, BPF_F_NO_PREALLOC | BPF_F_CLONE, text, since,
        required=BPF_F_NO_PREALLOC, needs_btf=True,
    )  # fmt: skip


MAP_TRAITS: dict[MapType, MapTraits] = {
    MapType.HASH: MapTraits(
        Key.ANY, Value.ANY, Entries.COUNT, _HASH, BPF_F_NO_PREALLOC | BPF_F_ZERO_SEED | _ALL,
        "hash table", "3.19",
    ),
    MapType.ARRAY: MapTraits(
        Key.INDEX, Value.ANY, Entries.COUNT, _ARRAY | MapOperation.MMAP, BPF_F_MMAPABLE | BPF_F_INNER_MAP | _ALL,
        "values that always exist", "3.19",
    ),
    MapType.PROG_ARRAY: MapTraits(
        Key.INDEX, Value.DESCRIPTOR, Entries.COUNT, _KEYED, _NUMA | _USER, "programs to tail-call", "4.2",
    ),
    MapType.PERF_EVENT_ARRAY: MapTraits(
        Key.INDEX, Value.DESCRIPTOR, Entries.PROCESSORS, _WRITE_ONLY, _NUMA | _USER | BPF_F_PRESERVE_ELEMS,
        "perf events, for output and counters", "4.3",
    ),
    MapType.PERCPU_HASH: MapTraits(
        Key.ANY, Value.ANY, Entries.COUNT, _HASH, BPF_F_NO_PREALLOC | BPF_F_ZERO_SEED | _USER | _PROGRAM,
        "hash table", "4.6", per_cpu=True,
    ),
    MapType.PERCPU_ARRAY: MapTraits(
        Key.INDEX, Value.ANY, Entries.COUNT, _ARRAY, _USER | _PROGRAM, "values that always exist", "4.6", per_cpu=True,
    ),
    MapType.STACK_TRACE: MapTraits(
        Key.INDEX, Value.TRACE, Entries.COUNT, MapOperation.LOOKUP | MapOperation.DELETE | MapOperation.ITERATE,
        BPF_F_STACK_BUILD_ID | _NUMA | _USER, "call stacks, by the number that get_stackid gives", "4.6",
    ),
    MapType.CGROUP_ARRAY: MapTraits(
        Key.INDEX, Value.DESCRIPTOR, Entries.COUNT, _WRITE_ONLY, _NUMA | _USER, "control groups to test for", "4.8",
    ),
    MapType.LRU_HASH: MapTraits(
        Key.ANY, Value.ANY, Entries.COUNT, _HASH, BPF_F_NO_COMMON_LRU | BPF_F_ZERO_SEED | _ALL,
        "hash table that gives up what was not used for long", "4.10",
    ),
    MapType.LRU_PERCPU_HASH: MapTraits(
        Key.ANY, Value.ANY, Entries.COUNT, _HASH, BPF_F_NO_COMMON_LRU | BPF_F_ZERO_SEED | _USER | _PROGRAM,
        "hash table that gives up what was not used for long", "4.10", per_cpu=True,
    ),
    MapType.LPM_TRIE: MapTraits(
        Key.PREFIX, Value.ANY, Entries.COUNT,
        _KEYED | _BATCH_READ_WRITE | MapOperation.BATCH_DELETE | MapOperation.TYPED, BPF_F_NO_PREALLOC | _ALL,
        "longest matching prefix", "4.11", required=BPF_F_NO_PREALLOC,
    ),
    MapType.ARRAY_OF_MAPS: MapTraits(
        Key.INDEX, Value.DESCRIPTOR, Entries.COUNT, _KEYED | _BATCH_READ_WRITE, _NUMA | _USER,
        "maps of one shape", "4.12", needs_inner=True,
    ),
    MapType.HASH_OF_MAPS: MapTraits(
        Key.ANY, Value.DESCRIPTOR, Entries.COUNT, _KEYED | _BATCHES, BPF_F_NO_PREALLOC | BPF_F_ZERO_SEED | _ALL,
        "maps of one shape", "4.12", needs_inner=True,
    ),
    MapType.DEVMAP: MapTraits(
        Key.INDEX, Value.DEVICE, Entries.COUNT, _KEYED, _NUMA | _USER, "interfaces to redirect XDP frames to", "4.14",
    ),
    MapType.SOCKMAP: MapTraits(
        Key.INDEX, Value.SOCKET, Entries.COUNT, _KEYED, _NUMA | _USER, "sockets to redirect messages to", "4.14",
    ),
    MapType.CPUMAP: MapTraits(
        Key.INDEX, Value.PROCESSOR, Entries.COUNT, _KEYED, _NUMA, "processors to redirect XDP frames to", "4.15",
    ),
    MapType.XSKMAP: MapTraits(
        Key.INDEX, Value.DESCRIPTOR, Entries.COUNT, _WRITE_ONLY, _NUMA | _USER, "AF_XDP sockets", "4.18",
    ),
    MapType.SOCKHASH: MapTraits(
        Key.ANY, Value.SOCKET, Entries.COUNT, _KEYED, _NUMA | _USER, "sockets to redirect messages to", "4.18",
    ),
    MapType.CGROUP_STORAGE: MapTraits(
        Key.CGROUP, Value.ANY, Entries.ZERO, _READ_WRITE, _ALL,
        "a value for each attachment to a control group (superseded by CGRP_STORAGE)", "4.19",
    ),
    MapType.REUSEPORT_SOCKARRAY: MapTraits(
        Key.INDEX, Value.SOCKET, Entries.COUNT, _KEYED, _ALL, "sockets that SO_REUSEPORT may choose", "4.19",
    ),
    MapType.PERCPU_CGROUP_STORAGE: MapTraits(
        Key.CGROUP, Value.ANY, Entries.ZERO, _READ_WRITE, _ALL,
        "a value for each attachment to a control group", "4.20", per_cpu=True,
    ),
    MapType.QUEUE: MapTraits(Key.NONE, Value.ANY, Entries.COUNT, _QUEUE, _ALL, "first in, first out", "4.20"),
    MapType.STACK: MapTraits(Key.NONE, Value.ANY, Entries.COUNT, _QUEUE, _ALL, "last in, first out", "4.20"),
    MapType.SK_STORAGE: _local("a value for each socket", "5.2"),
    MapType.DEVMAP_HASH: MapTraits(
        Key.INDEX, Value.DEVICE, Entries.COUNT, _KEYED, _NUMA | _USER, "interfaces, by any number", "5.4",
    ),
    MapType.STRUCT_OPS: MapTraits(
        Key.INDEX, Value.OPERATIONS, Entries.ONE, MapOperation.LOOKUP | MapOperation.UPDATE | MapOperation.DELETE,
        BPF_F_LINK | BPF_F_VTYPE_BTF_OBJ_FD, "a kernel table of functions that programs implement", "5.6",
        needs_btf=True,
    ),
    MapType.RINGBUF: MapTraits(
        Key.NONE, Value.NONE, Entries.BYTES, MapOperation.MMAP, _NUMA,
        "records from programs, in order over all processors", "5.8",
    ),
    MapType.INODE_STORAGE: _local("a value for each inode", "5.10"),
    MapType.TASK_STORAGE: _local("a value for each thread; user space names one by a pidfd", "5.11"),
    MapType.BLOOM_FILTER: MapTraits(
        Key.NONE, Value.ANY, Entries.COUNT, MapOperation.PUSH, BPF_F_ZERO_SEED | _ALL,
        "whether a value was added: certainly not, or probably", "5.16",
    ),
    MapType.USER_RINGBUF: MapTraits(
        Key.NONE, Value.NONE, Entries.BYTES, MapOperation.MMAP, _NUMA, "records from user space to programs", "6.1",
    ),
    MapType.CGRP_STORAGE: _local("a value for each control group", "6.2"),
    MapType.ARENA: MapTraits(
        Key.NONE, Value.NONE, Entries.PAGES, MapOperation.MMAP, BPF_F_MMAPABLE | BPF_F_SEGV_ON_FAULT,
        "memory that programs and user space share at will", "6.9", required=BPF_F_MMAPABLE,
    ),
}  # fmt: skip
"""One row for each map type."""
