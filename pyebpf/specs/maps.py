"""The spec of a map: frozen data, no descriptor; and its check against the traits of its type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.specs.map_traits import FLAG_NAMES, MAP_TRAITS, Entries, Key, MapOperation, Value
from pyebpf.types import S32, U32, U64
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import (
    BPF_F_NUMA_NODE,
    BPF_F_RDONLY,
    BPF_F_RDONLY_PROG,
    BPF_F_STACK_BUILD_ID,
    BPF_F_WRONLY,
    BPF_F_WRONLY_PROG,
)

if TYPE_CHECKING:
    from pyebpf.specs.map_traits import MapTraits
    from pyebpf.types import Type

#: Types of keys and values that the kind fixes.
_FIXED_KEYS: dict[Key, Type] = {Key.INDEX: U32, Key.DESCRIPTOR: S32, Key.CGROUP: U64}
_FIXED_VALUES: dict[Value, Type] = {Value.DESCRIPTOR: U32, Value.SOCKET: U64, Value.DEVICE: U32, Value.PROCESSOR: U32}

_MAX_ELEMENTS = (1 << 32) - 1
_MAX_KEY = 32 << 10  # what a per-CPU map, in which programs make long keys, has room for
_MAX_PREFIX = 256
_MAX_HASHES = 15
_MAX_OF_ARENA = 1 << 32
_LEAST_PAGE = 4096  # of the architectures that Linux has

_KEY_SIZES = {Key.INDEX: (4,), Key.DESCRIPTOR: (4,), Key.CGROUP: (8, 16)}
_KEY_WORDS = {Key.INDEX: "u32", Key.DESCRIPTOR: "s32", Key.CGROUP: "u64"}
_VALUE_SIZES = {Value.DESCRIPTOR: (4,), Value.SOCKET: (4, 8), Value.DEVICE: (4, 8), Value.PROCESSOR: (4, 8)}


@dataclass(frozen=True, slots=True)
class MapTypes:
    """BTF for BTF_LOAD, and the ids for MAP_CREATE (0: none)."""

    btf: bytes
    key: int
    value: int


@dataclass(frozen=True, slots=True)
class MapSpec:
    """One map. `name` is what programs call it, any text without NUL, unique in its module.

    The kernel shows its first 15 characters, with `_` in place of those that it does not take (`kernel_name`).

    `key` and `value` are types with codecs; None where the kind has none or fixes them itself (indices, descriptors).
    `max_entries` counts entries (a ring buffer's: bytes, a power of two from 4096 on; a perf event array's: 0
    for one each possible processor). `flags` are BPF_F_*. `initial` entries are written before any program
    runs; `frozen` then closes the map to the system call's writes.

    `numa_node` places the memory (BPF_F_NUMA_NODE). `extra` is the kind's own number: a Bloom filter's hash functions
    (1 to 15; 0 means 5), an arena's address. `inner_map` is the shape of the maps in a map of maps. `with_btf` gives
    the kernel BTF of key and value, so that tools such as bpftool show fields. `struct_ops` is the name of the kernel's
    struct_ops structure ("tcp_congestion_ops"). `btf` is BTF that there is already, in place of what `with_btf` makes.
    """

    name: str
    type: MapType
    key: Type | None
    value: Type | None
    max_entries: int
    flags: int = 0
    initial: tuple[tuple[bytes, bytes], ...] = ()
    frozen: bool = False
    numa_node: int | None = None
    extra: int = 0
    inner_map: MapSpec | None = None
    with_btf: bool = False
    struct_ops: str = ""
    btf: MapTypes | None = None

    @property
    def traits(self) -> MapTraits:
        """Keys, values, sizes, flags and operations of maps of this type."""
        return MAP_TRAITS[self.type]

    @property
    def key_type(self) -> Type | None:
        """The type of keys: `key`, or the one that the kind fixes; None for kinds without keys."""
        return self.key or _FIXED_KEYS.get(self.traits.key)

    @property
    def value_type(self) -> Type | None:
        """The type of values: `value`, or the one that the kind fixes; None for kinds without values."""
        return self.value or _FIXED_VALUES.get(self.traits.value)

    def entries(self, page_size: int) -> int:
        """`max_entries` for a kernel with pages of `page_size` bytes: a ring buffer has at least one."""
        return max(self.max_entries, page_size) if self.traits.entries is Entries.BYTES else self.max_entries

    def check(self, page_size: int = 4096) -> None:
        """Raise InvalidValue, naming the fix, for a shape that no kernel takes."""
        _check(self, page_size)


def map_size(size: object) -> int:
    """A number of entries, or InvalidValue."""
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 1 << 32:
        raise InvalidValue(f"size={size!r}: a map has 1 to {(1 << 32) - 1} entries")
    return size


def _check(spec: MapSpec, page_size: int) -> None:
    """`MapSpec.check`: each refusal says what to give instead."""
    traits = spec.traits
    if not spec.name or "\0" in spec.name:
        raise InvalidValue(f"map name {spec.name!r}: give a name without NUL, such as 'opens'")
    _key(spec, traits)
    _value(spec, traits)
    _entries(spec, traits, page_size)
    _flags(spec, traits)
    if traits.needs_inner != (spec.inner_map is not None):
        fix = "give inner_map=, the spec of the maps in it" if traits.needs_inner else "leave out inner_map="
        raise _wrong(spec, fix)
    if spec.inner_map is not None:
        _check(spec.inner_map, page_size)
        if spec.inner_map.inner_map is not None:
            raise _wrong(spec, "maps nest one level deep: give an inner spec that has no inner of its own")
    if spec.with_btf and not traits.operations & MapOperation.TYPED:
        raise _wrong(spec, "the kernel takes no BTF for this kind: leave out with_btf=")
    if spec.extra and spec.type not in {MapType.BLOOM_FILTER, MapType.ARENA}:
        raise _wrong(spec, "extra= is for Bloom filters (hash functions) and arenas (address): leave it out")
    if spec.type is MapType.BLOOM_FILTER and not 0 <= spec.extra <= _MAX_HASHES:
        raise _wrong(spec, f"{spec.extra} hash functions: give extra= 1 to {_MAX_HASHES}, or 0 for the kernel's 5")
    if (spec.type is MapType.STRUCT_OPS) != bool(spec.struct_ops):
        fix = 'give struct_ops=, such as "tcp_congestion_ops"' if not spec.struct_ops else "leave out struct_ops="
        raise _wrong(spec, fix)
    if spec.frozen and spec.type is MapType.STRUCT_OPS:
        raise _wrong(spec, "the kernel freezes no struct_ops map: leave out frozen=")


def _wrong(spec: MapSpec, fix: str) -> InvalidValue:
    return InvalidValue(f"map {spec.name} ({spec.type.name}): {fix}")


def _fixed(given: Type | None) -> str:
    return "none is given" if given is None else f"not {given!r}, {given.size} bytes"


def _key(spec: MapSpec, traits: MapTraits) -> None:
    key = spec.key
    if traits.key is Key.NONE:
        if key is not None:
            raise _wrong(spec, f"this kind has no keys: leave out key={key!r}")
    elif traits.key in _KEY_SIZES:
        if key is not None and key.size not in _KEY_SIZES[traits.key]:
            raise _wrong(spec, f"keys are {traits.key.value}, {_fixed(key)}: give key={_KEY_WORDS[traits.key]}")
    elif key is None:
        raise _wrong(spec, "give key=, the type of its keys")
    elif traits.key is Key.PREFIX:
        if not 5 <= key.size <= 4 + _MAX_PREFIX:
            raise _wrong(spec, f"keys are a {traits.key.value}, {_fixed(key)}: give key=ipv4_prefix or ipv6_prefix")
    elif key.size > _MAX_KEY:
        raise _wrong(spec, f"a key of {key.size} bytes: programs have room for at most {_MAX_KEY}")


def _value(spec: MapSpec, traits: MapTraits) -> None:
    value = spec.value
    if traits.value is Value.NONE:
        if value is not None:
            raise _wrong(spec, f"this kind has no values: leave out value={value!r}")
    elif traits.value is Value.OPERATIONS:
        if value is not None:
            raise _wrong(spec, "the kernel's BTF gives the value: leave out value=")
    elif traits.value in _VALUE_SIZES:
        if value is not None and value.size not in _VALUE_SIZES[traits.value]:
            raise _wrong(spec, f"values are {traits.value.value}, {_fixed(value)}: leave out value=")
    elif value is None:
        raise _wrong(spec, "give value=, the type of its values")
    elif traits.value is Value.TRACE:
        frame = 32 if spec.flags & BPF_F_STACK_BUILD_ID else 8
        if value.size % frame:
            raise _wrong(spec, f"a frame has {frame} bytes, {_fixed(value)}: give value=array(u64, 127)")


def _entries(spec: MapSpec, traits: MapTraits, page_size: int) -> None:
    count = spec.max_entries
    if not 0 <= count <= _MAX_ELEMENTS:
        raise _wrong(spec, f"{count} is not a size: give 1 to {_MAX_ELEMENTS}")
    match traits.entries:
        case Entries.COUNT | Entries.PAGES:
            if not count:
                raise _wrong(spec, f"a size of 0: give the number of {traits.entries.value}")
            if traits.entries is Entries.PAGES and count * page_size > _MAX_OF_ARENA:
                most = _MAX_OF_ARENA // page_size
                raise _wrong(spec, f"{count} pages of {page_size} bytes: give at most {most}, which are 4 GiB")
        case Entries.BYTES:
            # Where pages are larger, the ring is as large as one of them.
            if count < _LEAST_PAGE or count & (count - 1):
                raise _wrong(
                    spec, f"{count} bytes: give a power of two from {_LEAST_PAGE} on, such as {64 * _LEAST_PAGE}"
                )
        case Entries.ZERO | Entries.ONE:
            if count != int(traits.entries.value):
                raise _wrong(spec, f"{count} entries: give {traits.entries.value}, the kernel makes what is needed")


def _flag_names(flags: int) -> str:
    """Flags as text, `BPF_F_NO_PREALLOC | 0x80000000`."""
    names = [f"BPF_F_{name}" for bit, name in FLAG_NAMES.items() if flags & bit]
    rest = flags & ~sum(FLAG_NAMES)
    return " | ".join([*names, hex(rest)] if rest else names) or "no flag"


def _flags(spec: MapSpec, traits: MapTraits) -> None:
    flags = spec.flags
    if unknown := flags & sum(FLAG_NAMES) & ~traits.flags:
        raise _wrong(
            spec, f"this kind does not take {_flag_names(unknown)}: leave it out (it takes {_flag_names(traits.flags)})"
        )
    if missing := traits.required & ~flags:
        raise _wrong(spec, f"this kind needs {_flag_names(missing)}: add it to flags=")
    for one, other in ((BPF_F_RDONLY, BPF_F_WRONLY), (BPF_F_RDONLY_PROG, BPF_F_WRONLY_PROG)):
        if flags & one and flags & other:
            raise _wrong(spec, f"{_flag_names(one)} and {_flag_names(other)} exclude each other: give one")
    if spec.numa_node is not None and not traits.flags & BPF_F_NUMA_NODE:
        raise _wrong(spec, "memory of this kind lies on no one NUMA node: leave out numa_node=")
    if flags & BPF_F_NUMA_NODE and spec.numa_node is None:
        raise _wrong(spec, "BPF_F_NUMA_NODE names no node: give numa_node= instead of the flag")
