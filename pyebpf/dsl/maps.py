"""Maps as their users see them: entities inside probes, Python mappings outside.

The probe's side is the builder's. User space's side goes to whatever `bind` was given: the kernel's map, or the vm's.
Without one it raises NotLoaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.builder.maps import MapEntity
from pyebpf.errors import InvalidValue
from pyebpf.maps.mapping import StoredMapping
from pyebpf.maps.store import Stored
from pyebpf.specs.maps import map_size
from pyebpf.types import U32, type_of
from pyebpf.uapi.flags import BPF_F_MMAPABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import overload

    from pyebpf.specs import MapSpec
    from pyebpf.types import Type
    from pyebpf.uapi.bpf import MapType


__all__ = [
    "ArrayMap",
    "Bound",
    "HashMap",
    "KeyedMap",
    "PerCpuArrayMap",
    "PerCpuHashMap",
    "bpf_type",
]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Bound(Stored):
    """The part that every declared map shares: `name` (empty until it has one), its spec, what it is bound to."""

    if TYPE_CHECKING:

        @property
        def spec(self) -> MapSpec:
            """The map that the loader makes."""

    name: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.current_name()}>"

    def specs(self) -> Sequence[MapSpec]:
        """Every map that is to be made for it."""
        return (self.spec,)

    def current_name(self) -> str:
        """The name, or what stands in for it until a module is compiled."""
        return self.name or "(unnamed)"

    def _not_loaded(self) -> str:
        return f"map {self.current_name()} is not loaded: read and write it inside `with bpf:`"


def bpf_type(declared: Any, what: str) -> Type:
    """The type that an argument means, or InvalidValue."""
    found = type_of(declared)
    if found is None:
        raise InvalidValue(
            f"{what}={declared!r} is no BPF type: give an integer type, char[N], u8[N], a Struct class, or a tuple of "
            "such"
        )
    return found


class KeyedMap(Bound, StoredMapping[K, V], MapEntity, Generic[K, V]):
    """A map with keys."""

    def __init__(self, kind: MapType, key: Any, value: Any, size: int, name: str) -> None:
        self.name = name
        MapEntity.__init__(
            self, self.current_name, kind, bpf_type(key, "key"), bpf_type(value, "value"), map_size(size)
        )
        self.typed = True

    if TYPE_CHECKING:

        def for_each(self, function: Callable[[K, V], None] | Callable[[K, V], bool]) -> int:
            """In a probe: call `function(key, value)` for each entry until it returns True; how many there were."""

        @overload
        def get(self, key: K, /) -> V | None: ...
        @overload
        def get(self, key: K, default: V | T, /) -> V | T: ...
        def get(self, key: K, default: Any = None, /) -> Any: ...


class HashMap(KeyedMap[K, V]):
    """`bpf.hash(key=K, value=V)`."""


class PerCpuHashMap(KeyedMap[K, V]):
    """`bpf.percpu_hash(key=K, value=V)`."""


class ArrayMap(KeyedMap[int, V]):
    """`bpf.array(value=V, size=N)`."""

    def __init__(self, kind: MapType, value: Any, size: int, name: str, *, mappable: bool = False) -> None:
        super().__init__(kind, U32, value, size, name)
        self.flags = BPF_F_MMAPABLE if mappable else 0

    def window(self, *, writable: bool = True) -> Any:
        """The values in this process's memory, without system calls: `window[i]`, if made with mappable=True."""
        return self.store.window(writable=writable)


class PerCpuArrayMap(KeyedMap[int, V]):
    """`bpf.percpu_array(value=V, size=N)`."""

    def __init__(self, kind: MapType, value: Any, size: int, name: str) -> None:
        super().__init__(kind, U32, value, size, name)
