"""Maps of maps: a look-up in a probe finds a map, whose operations then are those of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.map_pointers import InnerMap
from pyebpf.builder.values.methods import method_of
from pyebpf.compiler.ir import Condition
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue
from pyebpf.maps import over
from pyebpf.maps.declared import LoadedMap
from pyebpf.maps.keyed import KeyedMap
from pyebpf.maps.mapping import StoredObjectArray
from pyebpf.maps.store import Stored
from pyebpf.specs.map_traits import Entries, Value
from pyebpf.types import U32
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.maps.store import MapStore
    from pyebpf.specs import MapSpec

K = TypeVar("K")
M = TypeVar("M")


class StoredMapOfMaps(StoredObjectArray[K]):
    """Maps as values, each of the spec's `inner` shape: `outer[k] = inner_map` shares it, `outer[k]` opens it.

    A map that was opened is the caller's to close. `ids()` opens none.
    """

    def _encode_value(self, value: object) -> bytes:
        store = getattr(value, "store", value)
        spec, inner = getattr(store, "spec", None), self.store.spec.inner_map
        if spec is not None and spec.type is not inner.type:
            raise InvalidValue(f"map {self.store.spec.name} holds maps of type {inner.type.name}, not {spec.type.name}")
        return super()._encode_value(store)

    def __getitem__(self, key: K) -> Any:
        try:
            return _opened(self.store.inner_store(super().__getitem__(key)))
        except FileNotFoundError:  # replaced and gone since its id was read
            raise KeyError(key) from None

    def make(self) -> Any:
        """A new map of the inner maps' shape, the caller's to close; one that was put in lives on there."""
        return _opened(self.store.make_inner())

    def ids(self) -> dict[K, int]:
        """The maps' ids by key."""
        return self.snapshot()

    def items(self) -> NoReturn:
        raise InvalidValue(f"map {self.store.spec.name} holds maps: .ids() lists them, and [k] opens one")

    def values(self) -> NoReturn:
        self.items()

    def pop(self, key: K, default: object = None) -> NoReturn:
        raise InvalidValue(f"map {self.store.spec.name} holds maps: read [k] first, then `del`")


class MapOfMaps(StoredMapOfMaps[K], KeyedMap[K, Any], Generic[K, M]):
    """`bpf.array_of_maps(shape)` and `bpf.hash_of_maps(shape, key=K)`.

    In a probe `.get(k)` is a map of that shape, or None. In user space `outer[k] = m` puts a map in, `outer[k]` opens
    the one that is there (the caller's to close), `del` takes it out; `ids()` lists what is there.
    """

    def __init__(self, name: str, map_type: MapType, key: Any, shape: Any, size: int) -> None:
        traits = shape.spec.traits if isinstance(shape, LoadedMap) else None
        if traits is None or (traits.value, traits.entries) != (Value.ANY, Entries.COUNT):
            raise InvalidValue(
                f"bpf.{map_type.name.lower()}({shape!r}): the inner maps' shape is a declared map with keys, or a queue"
            )
        super().__init__(name, map_type, U32 if map_type is MapType.ARRAY_OF_MAPS else key, U32, size)
        self.template: LoadedMap = shape

    if TYPE_CHECKING:

        def get(self, key: K, /) -> M | None:  # type: ignore[override]  # as a probe writes it
            """The map under a key, or None."""

    # -- in probes -----------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> MapSpec:
        inner = replace(self.template.spec, initial=(), frozen=False)
        return replace(super().spec, value=None, inner_map=inner, with_btf=False)

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"get": self._get_map})

    def _get_map(self, p: ProgramBuilder, key: object) -> InnerMap:
        if self.map_type is MapType.ARRAY_OF_MAPS and isinstance(key, int) and not 0 <= key < self.max_entries:
            p.fail(f"index {int(key)} is outside {self.describe()}, which has {self.max_entries} entries")
        return InnerMap(self._find(p, key), self.template, self.map_name)

    def item(self, p: ProgramBuilder, index: object) -> NoReturn:
        name = self.map_name
        p.fail(f"{name}[k] may be missing: write {name}.get(k) and test it with `is None`")

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> NoReturn:
        self._user_side(p)

    def augment_item(self, p: ProgramBuilder, index: object, operator: str, value: object) -> NoReturn:
        self.item(p, index)

    def delete_item(self, p: ProgramBuilder, index: object) -> NoReturn:
        self._user_side(p)

    def _user_side(self, p: ProgramBuilder) -> NoReturn:
        p.fail(f"{self.describe()} holds maps: user space inserts and removes them, probes look them up")

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        return Compare(Condition.NE, self._find(p, item), p.b.const(0), null_check=True)


def _opened(store: MapStore) -> object:
    """Python's side of an inner map."""
    return store if isinstance(store, Stored) else over(store)
