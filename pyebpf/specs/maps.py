"""The spec of a map: frozen data, no descriptor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.types import S32, U32, U64

if TYPE_CHECKING:
    from pyebpf.specs.described import MapTypes
    from pyebpf.specs.map_traits import MapTraits
    from pyebpf.types import Type
    from pyebpf.uapi.bpf import MapType

__all__ = ["MapSpec", "map_size"]

#: Types of keys and values that the kind fixes, by the names of `Key` and `Value`.
_FIXED_KEYS: dict[str, Type] = {"INDEX": U32, "DESCRIPTOR": S32, "CGROUP": U64}
_FIXED_VALUES: dict[str, Type] = {"DESCRIPTOR": U32, "SOCKET": U64, "DEVICE": U32, "PROCESSOR": U32}


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
    type: MapType
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

    @property
    def traits(self) -> MapTraits:
        """Keys, values, sizes, flags and operations of maps of this type."""
        from pyebpf.specs.map_traits import MAP_TRAITS

        return MAP_TRAITS[self.type]

    @property
    def key_type(self) -> Type | None:
        """The type of keys: `key`, or the one that the kind fixes; None for kinds without keys."""
        return self.key or _FIXED_KEYS.get(self.traits.key.name)

    @property
    def value_type(self) -> Type | None:
        """The type of values: `value`, or the one that the kind fixes; None for kinds without values."""
        return self.value or _FIXED_VALUES.get(self.traits.value.name)

    def entries(self, page_size: int) -> int:
        """`max_entries` for a kernel with pages of `page_size` bytes: a ring buffer has at least one."""
        from pyebpf.specs.map_traits import Entries

        return max(self.max_entries, page_size) if self.traits.entries is Entries.BYTES else self.max_entries

    def check(self, page_size: int = 4096) -> None:
        """Raise InvalidValue, naming the fix, for a shape that no kernel takes."""
        from pyebpf.specs.map_check import check

        check(self, page_size)


def map_size(size: object) -> int:
    """A number of entries, or InvalidValue."""
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 1 << 32:
        raise InvalidValue(f"size={size!r}: a map has 1 to {(1 << 32) - 1} entries")
    return size
