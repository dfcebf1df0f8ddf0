"""The byte store: a map as user space has it before its bytes are Python values.

`objects.KernelMap` is one by bpf(2), the interpreter's `VmMap` by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pyebpf.errors import NotLoaded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyebpf.specs import MapSpec
    from pyebpf.types import Struct, Type

#: Keys laid end to end, their values, how many.
Batch: TypeAlias = tuple[bytes, bytes, int]


class MapStore(Protocol):
    """Entries as the kernel holds them: of a per-CPU map, a value is a slot of 8n bytes for each possible processor.

    Queues, stacks and Bloom filters have empty keys. All methods raise KernelError, with the kernel's errno.
    """

    @property
    def spec(self) -> MapSpec:
        """The map's description."""

    @property
    def key_type(self) -> Type | None:
        """The type that keys are encoded by; None: the kind has none."""

    @property
    def value_type(self) -> Type | None:
        """The type of values, a per-CPU map's of one slot; None: the kind has none."""

    @property
    def max_entries(self) -> int:
        """The capacity; 0 where the kernel makes what is needed."""

    @property
    def processors(self) -> int:
        """Slots in a value: 1 unless the map is per-CPU."""

    def lookup_elem(self, key: bytes, /) -> bytes | None:
        """The value of a key; None if it is missing."""

    def peek_elem(self, value: bytes, /) -> bytes | None:
        """The head of a queue or stack, or the value itself if a Bloom filter has it; None if there is none."""

    def update_elem(self, key: bytes, value: bytes, flags: int = 0, /) -> None:
        """Set a value; put one into a queue, stack or Bloom filter."""

    def delete_elem(self, key: bytes, /) -> bool:
        """Remove a key; whether it was there."""

    def lookup_and_delete_elem(self, key: bytes, /) -> bytes | None:
        """The value of a key, which is removed; None if it is missing."""

    def lookup_batches(self) -> Iterator[Batch]:
        """Every entry; one that stays meanwhile exactly once."""

    def lookup_and_delete_batches(self) -> Iterator[Batch]:
        """Every entry, each removed as it is read."""

    def update_batch(self, keys: bytes, values: bytes, count: int, /) -> None:
        """Set many entries. Those before a failure stay."""

    def delete_batch(self, keys: Sequence[bytes], /) -> int:
        """Remove many keys; how many were there."""

    def object_number(self, value: object, /) -> object:
        """The number that is stored for an object: its descriptor; what is not an object is given back."""

    def inner_store(self, number: int, /) -> MapStore:
        """The map that a map of maps holds under a number; raises FileNotFoundError if it has gone meanwhile."""

    def make_inner(self) -> MapStore:
        """A new map of the shape of those that a map of maps holds."""

    def fileno(self) -> int:
        """The descriptor. Raises NotLoaded where there is none."""

    def window(self, *, writable: bool = True) -> Any:
        """The memory of an array or arena in this process. Raises NotLoaded where there is none."""


def each_entry(batches: Iterable[Batch]) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of every entry."""
    for keys, values, count in batches:
        key_size, value_size = len(keys) // count, len(values) // count
        for index in range(count):
            yield (
                keys[index * key_size : (index + 1) * key_size],
                values[index * value_size : (index + 1) * value_size],
            )


class Stored:
    """Python values over a store, which `bind` gives."""

    #: The class of a buffer's records, and options of their reader; None for what is no buffer of records.
    record_class: type[Struct] | None = None
    reader_options: Mapping[str, Any] = {}
    _store: Any = None

    def bind(self, store: Any, /) -> None:
        """Read and write a loaded map's store from now on; None: none."""
        self._store = store
        if store is not None:
            self._begin(store)

    def _begin(self, store: MapStore) -> None:
        """Take note of a new store's types; intervals begin anew."""

    @property
    def store(self) -> Any:
        """The loaded map. Raises NotLoaded outside `with`."""
        if self._store is None:
            raise NotLoaded(self._not_loaded())
        return self._store

    def _not_loaded(self) -> str:
        return "nothing is loaded"

    def fileno(self) -> int:
        """The map's descriptor."""
        return int(self.store.fileno())
