"""Maps as their users see them: entities inside probes, Python mappings outside.

The probe's side is the builder's. User space's side goes to whatever `bind` was given: the kernel's map, or the vm's
dictionaries. Without one it raises NotLoaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, MutableMapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.builder.maps import MapEntity
from pyebpf.errors import InvalidValue, NotLoaded
from pyebpf.specs.maps import map_size
from pyebpf.types import U32, type_of
from pyebpf.types.snapshot import NOT_NEXT, Merging, SnapshotMapping
from pyebpf.uapi.flags import BPF_F_MMAPABLE

if TYPE_CHECKING:
    from typing import overload

    from pyebpf.specs import MapSpec
    from pyebpf.types import Type
    from pyebpf.uapi.bpf import MapType


__all__ = [
    "ArrayMap",
    "Bound",
    "HashMap",
    "Keyed",
    "PerCpuArrayMap",
    "PerCpuHashMap",
    "bpf_type",
]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Bound:
    """The part that every declared map shares: `name` (empty until it has one), its spec, its backend."""

    if TYPE_CHECKING:

        @property
        def spec(self) -> MapSpec:
            """The map that the loader makes."""

    name: str
    _backend: Any = None

    def specs(self) -> Sequence[MapSpec]:
        """Every map that is to be made for it."""
        return (self.spec,)

    def current_name(self) -> str:
        """The name, or what stands in for it until a module is compiled."""
        return self.name or "(unnamed)"

    def bind(self, backend: Any, /) -> None:
        """Serve user space from a loaded map from now on; None: from none."""
        self._backend = backend

    @property
    def backend(self) -> Any:
        """The loaded map. Raises NotLoaded outside `with`."""
        if self._backend is None:
            raise NotLoaded(f"map {self.current_name()} is not loaded: read and write it inside `with bpf:`")
        return self._backend

    def fileno(self) -> int:
        """The map's descriptor."""
        return int(self.backend.fileno())


class Keyed(Bound, Generic[K]):
    """A map whose keys user space lists, and whose entries it takes out."""

    def __delitem__(self, key: K) -> None:
        del self.backend[key]

    def __contains__(self, key: object) -> bool:
        return key in self.backend

    def __iter__(self) -> Iterator[K]:
        return iter(self.backend)

    def __len__(self) -> int:
        return len(self.backend)


def bpf_type(declared: Any, what: str) -> Type:
    """The type that an argument means, or InvalidValue."""
    found = type_of(declared)
    if found is None:
        raise InvalidValue(
            f"{what}={declared!r} is no BPF type: give an integer type, char[N], u8[N], a Struct class, or a tuple of "
            "such"
        )
    return found


class KeyedMap(Merging, Keyed[K], MapEntity, MutableMapping[K, V], Generic[K, V]):
    """A map with keys."""

    def __init__(self, kind: MapType, key: Any, value: Any, size: int, name: str) -> None:
        self.name = name
        MapEntity.__init__(
            self, self.current_name, kind, bpf_type(key, "key"), bpf_type(value, "value"), map_size(size)
        )
        self.typed = True

    # Two maps with equal entries are two maps all the same, and entries change by themselves.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.current_name()}>"

    def __getitem__(self, key: K) -> V:
        merge = self._merge
        value: Any = NOT_NEXT if merge is None else self._ahead(merge, key, sys._getframe(1))
        if value is NOT_NEXT:
            value = self.backend[key]
        found: V = value
        return found

    def __setitem__(self, key: K, value: V) -> None:
        self.backend[key] = value

    def items(self) -> ItemsView[K, V]:
        """All entries, as they are now."""
        found: ItemsView[K, V] = self.backend.items()
        return found

    def keys(self) -> KeysView[K]:
        """All keys, as they are now."""
        return self._merging_keys(SnapshotMapping.of(self.backend.items()), sys._getframe(1))

    def values(self) -> ValuesView[V]:
        """All values, as they are now."""
        found: ValuesView[V] = self.backend.values()
        return found

    def drain(self) -> dict[K, V]:
        """Take all entries out and return them; over successive calls each is returned exactly once."""
        taken: dict[K, V] = self.backend.drain()
        return taken

    def clear(self) -> None:
        """Remove all entries; set those of an array to zero."""
        self.backend.clear()

    def popitem(self) -> tuple[K, V]:
        """Take any entry out; KeyError if there is none."""
        taken: tuple[K, V] = self.backend.popitem()
        return taken

    def update(self, *arguments: Any, **more: Any) -> None:
        """Set many entries, as `dict.update` does: in batches where the kernel has them."""
        self.backend.update(*arguments, **more)

    def __bool__(self) -> bool:
        return bool(self.backend)

    def interval(self) -> dict[K, V]:
        """The gain of each integer, or record of integers, since the last call; unchanged keys are left out."""
        gained: dict[K, V] = self.backend.interval()
        return gained

    if TYPE_CHECKING:

        def for_each(self, function: Callable[[K, V], None] | Callable[[K, V], bool]) -> int:
            """In a probe: call `function(key, value)` for each entry until it returns True; how many there were."""

        def add(self, key: K, value: V) -> bool:
            """Insert unless the key is there already (BPF_NOEXIST); whether it was inserted."""

        @overload
        def get(self, key: K, /) -> V | None: ...
        @overload
        def get(self, key: K, default: V | T, /) -> V | T: ...
        def get(self, key: K, default: Any = None, /) -> Any: ...
        @overload
        def pop(self, key: K, /) -> V: ...
        @overload
        def pop(self, key: K, default: V | T, /) -> V | T: ...
        def pop(self, key: K, default: Any = None, /) -> Any: ...
    else:

        def pop(self, key: Any, *default: Any) -> Any:
            return self.backend.pop(key, *default)

        def add(self, key: Any, value: Any) -> bool:
            return self.backend.add(key, value)


class HashMap(KeyedMap[K, V]):
    """`bpf.hash(key=K, value=V)`."""


class PerCpuMap(KeyedMap[K, V]):
    """A map with a value for each possible processor under each key; integers are read as their sum."""

    @property
    def per_cpu(self) -> Mapping[K, list[V]]:
        """The values processor by processor."""
        found: Mapping[K, list[V]] = self.backend.per_cpu
        return found


class PerCpuHashMap(PerCpuMap[K, V]):
    """`bpf.percpu_hash(key=K, value=V)`."""


class ArrayMap(KeyedMap[int, V]):
    """`bpf.array(value=V, size=N)`."""

    def __init__(self, kind: MapType, value: Any, size: int, name: str, *, mappable: bool = False) -> None:
        super().__init__(kind, U32, value, size, name)
        self.flags = BPF_F_MMAPABLE if mappable else 0

    def window(self, *, writable: bool = True) -> Any:
        """The values in this process's memory, without system calls: `window[i]`, if made with mappable=True."""
        return self.backend.window(writable=writable)


class PerCpuArrayMap(PerCpuMap[int, V]):
    """`bpf.percpu_array(value=V, size=N)`."""

    def __init__(self, kind: MapType, value: Any, size: int, name: str) -> None:
        super().__init__(kind, U32, value, size, name)
