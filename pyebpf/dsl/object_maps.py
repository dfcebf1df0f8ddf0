"""Maps of other objects (maps, programs) and values of kernel objects, as their users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.builder.maps_of_maps import MapOfMapsEntity
from pyebpf.dsl.maps import BloomFilter, Bound, KeyedMap, QueueMap, bpf_type, map_size
from pyebpf.errors import InvalidValue
from pyebpf.specs import MapKind
from pyebpf.types import U32

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.dsl.maps import D

__all__ = ["MapOfMaps", "ObjectMaps"]

K = TypeVar("K")
M = TypeVar("M")
V = TypeVar("V")

_DEFAULT_SIZE = 10_240

_SHAPES = (KeyedMap, QueueMap, BloomFilter)


class MapOfMaps(Bound, MapOfMapsEntity, Generic[K, M]):
    """`bpf.array_of_maps(shape)` and `bpf.hash_of_maps(shape, key=K)`.

    In a probe `.get(k)` is a map of that shape, or None. In user space `outer[k] = m` puts a map in, `outer[k]` opens
    the one that is there (the caller's to close), `del` takes it out; `ids()` lists what is there.
    """

    def __init__(self, kind: MapKind, key: Any, shape: Any, size: int, name: str) -> None:
        if not isinstance(shape, _SHAPES):
            raise InvalidValue(
                f"bpf.{kind.name.lower()}({shape!r}): the inner maps' shape is a declared map with keys, or a queue"
            )
        self.name = name
        found = U32 if kind is MapKind.ARRAY_OF_MAPS else bpf_type(key, "key")
        MapOfMapsEntity.__init__(self, self.current_name, kind, found, shape, map_size(size))

    def __repr__(self) -> str:
        return f"<MapOfMaps {self.current_name()}>"

    def __setitem__(self, key: K, value: M) -> None:
        self.backend[key] = value.backend if isinstance(value, Bound) else value

    def __getitem__(self, key: K) -> Any:
        return self.backend[key]

    def __delitem__(self, key: K) -> None:
        del self.backend[key]

    def __contains__(self, key: object) -> bool:
        return key in self.backend

    def __iter__(self) -> Iterator[K]:
        return iter(self.backend)

    def __len__(self) -> int:
        return len(self.backend)

    def make(self) -> Any:
        """A new map of the inner maps' shape, the caller's to close; one that was put in lives on there."""
        return self.backend.make()

    def ids(self) -> Mapping[K, int]:
        """The kernel's ids of the maps that are there."""
        found: Mapping[K, int] = self.backend.ids()
        return found

    if TYPE_CHECKING:

        def get(self, key: K, /) -> M | None:
            """The map under a key, or None."""
    else:

        def get(self, key: Any, default: Any = None) -> Any:
            return self.backend.get(key, default)


class ObjectMaps:
    """The methods of `Module` that declare such maps."""

    if TYPE_CHECKING:

        def declare(self, entity: D) -> D:
            """Make a map part of this module, and return it."""

    def array_of_maps(self, shape: V, *, size: int, name: str = "") -> MapOfMaps[int, V]:
        """`size` maps under the indices from 0, none at first, all like the declared map `shape`."""
        return self.declare(MapOfMaps(MapKind.ARRAY_OF_MAPS, None, shape, size, name))

    def hash_of_maps(self, shape: V, *, key: type[K], size: int = _DEFAULT_SIZE, name: str = "") -> MapOfMaps[K, V]:
        """Maps by key, at most `size`, all like the declared map `shape`."""
        return self.declare(MapOfMaps(MapKind.HASH_OF_MAPS, key, shape, size, name))
