"""`StoredMapping`: a map's entries as a Python mapping, over any byte store."""

from __future__ import annotations

import errno
import sys
from abc import abstractmethod
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pyebpf.collector import collector_paused
from pyebpf.errors import InvalidValue, KernelError
from pyebpf.maps.differences import check_counters, gained
from pyebpf.maps.snapshot import NOT_NEXT, Merging, SnapshotMapping
from pyebpf.maps.store import Stored, each_entry
from pyebpf.specs.map_traits import Key, MapOperation
from pyebpf.types import U32, IntType
from pyebpf.types.codecs import decoder, encode_all, in_first_slots, slot_decoder, slot_size
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_NOEXIST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyebpf.maps.store import Batch, MapStore
    from pyebpf.types import Type

_MISSING: Any = object()
#: Pairs that update() takes from an iterator before it writes them.
_PAIRS = 1 << 16

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class ReadMapping(Merging, Stored, Mapping[K, V], Generic[K, V]):
    """Entries that are read anew by each method, by what `_read_value` and `_now` give."""

    # Two maps with equal entries are two maps all the same, and entries change by themselves.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @abstractmethod
    def _read_value(self, key: K) -> V:
        """The value of a key. Raises KeyError."""

    @abstractmethod
    def _now(self) -> SnapshotMapping[K, V]:
        """All entries."""

    def __getitem__(self, key: K) -> V:
        merge = self._merge
        if merge is not None and (ahead := self._ahead(merge, key, sys._getframe(1))) is not NOT_NEXT:
            found: V = ahead
            return found
        return self._read_value(key)

    def _keys_now(self) -> list[K]:
        """All keys."""
        return self._now().key_list

    def _count_now(self) -> int:
        """The number of entries."""
        return len(self._now())

    def __iter__(self) -> Iterator[K]:
        keys = self._keys_now()
        self._note_listing(len(keys), sys._getframe(1))
        return iter(keys)

    def __len__(self) -> int:
        counted = self._count_of_listing(sys._getframe(1))
        return self._count_now() if counted is None else counted

    def snapshot(self) -> dict[K, V]:
        """All items now, as a dictionary."""
        return dict(self._now().items())

    def items(self) -> ItemsView[K, V]:
        """All items as they are now: the map may change meanwhile."""
        return self._now().items()

    def keys(self) -> KeysView[K]:
        """All keys as they are now."""
        return self._merging_keys(self._now(), sys._getframe(1))

    def values(self) -> ValuesView[V]:
        """All values as they are now."""
        return self._now().values()


class StoredMapping(ReadMapping[K, V], MutableMapping[K, V], Generic[K, V]):
    """Keys and values as Python values of the store's types.

    A per-CPU map's integers are summed over all processors, and `per_cpu[k]` lists them; its other values are lists
    with one item a processor. Array kinds hold every index at all times: their entries can't be removed. Iteration is
    safe while programs change the map: an entry that stays is seen exactly once.

    Raises KeyError for a missing key, InvalidValue for a key or value that does not fit its type, KernelError if a
    hash is full, NotLoaded where nothing is loaded (any more).
    """

    #: Whether it is of networks, as bpf.lpm_trie().
    _is_trie = False

    def _begin(self, store: MapStore) -> None:
        key, value = store.key_type, store.value_type
        self._per_cpu = store.spec.traits.per_cpu
        self._is_trie = store.spec.type is MapType.LPM_TRIE
        if key is not None and value is not None:
            self._decode_keys = decoder(key.as_key())
            self._decode_slots = slot_decoder(value) if self._per_cpu else decoder(value)
            self._sums = self._per_cpu and isinstance(value, IntType)
        self._previous: dict[Any, Any] = {}
        self._one_reader = RLock()
        # Keys that popitem() tries next, the last first, and where more of them come from.
        self._spare: list[bytes] = []
        self._more: Iterator[Batch] = iter(())

    # --- single entries ---

    def _encode_key(self, key: object) -> bytes:
        store = self.store
        if store.key_type is None:
            raise InvalidValue(f"map {store.spec.name} ({store.spec.type.name}) has no keys: read it as events")
        encoded: bytes = store.key_type.encode(key)
        return encoded

    def _encode_value(self, value: object) -> bytes:
        kind: Type = self.store.value_type
        if not self._per_cpu:
            return kind.encode(value)
        size, processors = slot_size(kind.size), self.store.processors
        if isinstance(value, list) and not self._sums:
            if len(value) != processors:
                raise InvalidValue(
                    f"map {self.store.spec.name} holds a value for each of {processors} processors, not {len(value)}"
                )
            return b"".join(kind.encode(part).ljust(size, b"\0") for part in value)
        # One value stands for all: in the first slot, so that a sum reads back as what was stored.
        return kind.encode(value).ljust(size * processors, b"\0")

    def _encode_values(self, values: Collection[object]) -> bytes:
        if not self._per_cpu:
            return encode_all(self.store.value_type, values)
        if self._sums:
            return in_first_slots(self.store.value_type, values, self.store.processors)
        return b"".join(map(self._encode_value, values))

    def _decode_values(self, values: bytes) -> list[Any]:
        """Values laid end to end, as user space sees them."""
        flat = self._decode_slots(values)
        if not self._per_cpu:
            return flat
        parts = zip(*[iter(flat)] * self.store.processors, strict=True)
        return list(map(sum if self._sums else list, parts))

    def _read_value(self, key: K) -> V:
        encoded = self._encode_key(key)
        value = self._lookup_network(encoded) if self._is_trie else self.store.lookup_elem(encoded)
        if value is None:
            raise KeyError(key)
        found: V = self._decode_values(value)[0]
        return found

    def __contains__(self, key: object) -> bool:
        encoded = self._encode_key(key)
        return (self._lookup_network(encoded) if self._is_trie else self.store.lookup_elem(encoded)) is not None

    def _lookup_network(self, key: bytes) -> bytes | None:
        """The value of a trie's key: of a whole address that of the longest prefix, of a network its own."""
        found: bytes | None = self.store.lookup_elem(key)
        length, whole = int.from_bytes(key[: U32.size], sys.byteorder), 8 * (len(key) - U32.size)
        if found is None or length == whole:
            return found
        # The kernel finds what contains the network, and doesn't say which entry that is.
        network = int.from_bytes(key[U32.size :], "big") >> whole - length
        for each, value in each_entry(self.store.lookup_batches()):
            if each[: U32.size] == key[: U32.size] and (
                int.from_bytes(each[U32.size :], "big") >> whole - length == network
            ):
                return value
        return None

    def __setitem__(self, key: K, value: V) -> None:
        self._put(key, value, 0)

    def add(self, key: K, value: V) -> bool:
        """Insert unless the key is there already (BPF_NOEXIST); whether it was inserted."""
        try:
            self._put(key, value, BPF_NOEXIST)
        except KernelError as error:
            if error.errno == errno.EEXIST:
                return False
            raise
        return True

    def _put(self, key: object, value: object, flags: int) -> None:
        store, encoded = self.store, self._encode_key(key)
        try:
            store.update_elem(encoded, self._encode_value(value), flags)
        except KernelError as error:
            self._check_index(error, key)
            raise

    def _check_index(self, error: KernelError, key: object) -> None:
        """Raise the error of an index that an array does not have, if that is what the kernel's error means."""
        spec = self.store.spec
        indexed = spec.traits.key is Key.INDEX and spec.type is not MapType.DEVMAP_HASH
        if error.errno == errno.E2BIG and indexed:
            raise InvalidValue(f"map {spec.name} has indices 0 to {self.store.max_entries - 1}, not {key!r}") from None

    def __delitem__(self, key: K) -> None:
        self._check_removable()
        encoded = self._encode_key(key)
        if not self.store.delete_elem(encoded):
            raise KeyError(key)
        self._forget(encoded)

    def _forget(self, *keys: bytes) -> None:
        """Let removed keys count anew in the next interval, however much was added to them again by then."""
        if self._previous:
            for key in self._decode_keys(b"".join(keys)):
                self._previous.pop(key, None)

    def _check_removable(self, instead: str = "store 0 instead") -> None:
        if self.store.spec.traits.is_array:
            raise InvalidValue(f"map {self.store.spec.name} is an array: its entries always exist; {instead}")

    @overload
    def pop(self, key: K, /) -> V: ...
    @overload
    def pop(self, key: K, /, default: V | T) -> V | T: ...
    def pop(self, key: K, /, default: object = _MISSING) -> Any:
        """Remove a key and return its value, in one step; if it is missing the default, else KeyError."""
        self._check_removable()
        encoded = self._encode_key(key)
        value = self.store.lookup_and_delete_elem(encoded)
        if value is not None:
            self._forget(encoded)
            return self._decode_values(value)[0]
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[K, V]:
        """Take any entry out; KeyError if there is none. Keys are read in batches, each value in one step."""
        self._check_removable("use clear()")
        value = self._first(self.store.lookup_and_delete_elem)
        if value is None:
            raise KeyError(f"map {self.store.spec.name} is empty")
        encoded = self._spare.pop()
        self._forget(encoded)
        return self._decode_keys(encoded)[0], self._decode_values(value)[0]

    def __bool__(self) -> bool:
        if self.store.spec.traits.is_array:
            return bool(self.store.max_entries > 0)
        return self._first(self.store.lookup_elem) is not None

    def _first(self, attempt: Callable[[bytes], bytes | None]) -> bytes | None:
        """Return the result of `attempt` for the first key that it finds, then the last of `_spare`; None if empty."""
        self.store.fileno()
        for _ in range(2):  # the keys that were read before, then those that there are now
            while True:
                while self._spare:
                    found = attempt(self._spare[-1])
                    if found is not None:
                        return found
                    self._spare.pop()  # removed since it was read
                keys = next(self._more, (b"",))[0]
                if not keys:
                    break
                size = self.store.key_type.size
                self._spare = [keys[at : at + size] for at in range(len(keys) - size, -1, -size)]
            self._more = self._batches()
        return None

    def update(self, *arguments: object, **more: object) -> None:
        """Set many entries, as `dict.update` does: in batches where the kernel has them.

        Those before a failure stay. An iterator is read on as its pairs are written.
        """
        if len(arguments) == 1 and isinstance(arguments[0], Iterator):
            while some := dict(islice(arguments[0], _PAIRS)):
                self._write(some)
            arguments = ()
        self._write(dict(*arguments, **more))

    def _write(self, given: dict[Any, Any]) -> None:
        store = self.store
        if not given:
            return
        if store.key_type is None or store.value_type is None:
            self._encode_key(None)
        try:
            store.update_batch(encode_all(store.key_type, given), self._encode_values(given.values()), len(given))
        except KernelError as error:
            self._check_index(error, max(given))
            raise

    def remove(self, keys: Iterable[K]) -> int:
        """Remove many keys, in batches where the kernel has them; how many of them were there."""
        self._check_removable()
        encoded = [self._encode_key(key) for key in keys]
        removed: int = self.store.delete_batch(encoded)
        self._forget(*encoded)
        return removed

    # --- all entries ---

    def _batches(self) -> Iterator[Batch]:
        spec = self.store.spec
        if self.store.key_type is None:
            raise InvalidValue(f"map {spec.name} ({spec.type.name}) has no items: read it as events")
        readable = spec.traits.operations & MapOperation.LOOKUP
        if not readable or not spec.traits.operations & MapOperation.ITERATE:
            way = "look its keys up one by one" if readable else "the kernel gives its values to programs only"
            raise InvalidValue(f"map {spec.name} ({spec.type.name}) lists no items: {way}")
        found: Iterator[Batch] = self.store.lookup_batches()
        return found

    def raw_items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values as bytes; a per-CPU value is all slots laid end to end."""
        return each_entry(self._batches())

    def _decoded(self) -> Iterator[tuple[list[K], list[V]]]:
        """Keys and values of each batch."""
        for keys, values, _ in self._batches():
            yield self._decode_keys(keys), self._decode_values(values)

    def _now(self) -> SnapshotMapping[K, V]:
        found: SnapshotMapping[K, V] = SnapshotMapping([], [])
        with collector_paused():
            for keys, values in self._decoded():
                found.key_list += keys
                found.value_list += values
        return found

    def snapshot(self) -> dict[K, V]:
        found: dict[K, V] = {}
        with collector_paused():
            for keys, values in self._decoded():
                found.update(zip(keys, values, strict=True))
        return found

    def _keys_now(self) -> list[K]:
        found: list[K] = []
        for keys, _, _ in self._batches():
            found += self._decode_keys(keys)
        return found

    def _count_now(self) -> int:
        if self.store.spec.traits.is_array:
            return int(self.store.max_entries)
        return sum(count for _, _, count in self._batches())

    def drain(self) -> dict[K, V]:
        """Take all entries out and return them; over successive calls each is returned exactly once."""
        self._check_removable("use clear()")
        result: dict[K, V] = {}
        with self._one_reader, collector_paused():
            self._previous = {}
            for keys, values, _ in self.store.lookup_and_delete_batches():
                result.update(zip(self._decode_keys(keys), self._decode_values(values), strict=True))
        return result

    def clear(self) -> None:
        """Remove all entries; set those of an array to zero."""
        store = self.store
        with self._one_reader:
            self._previous = {}
            if store.spec.traits.is_array:
                count = store.max_entries
                zeros = bytes(slot_size(store.value_type.size) if self._per_cpu else store.value_type.size)
                store.update_batch(encode_all(U32, range(count)), zeros * (store.processors * count), count)
                return
            for _ in store.lookup_and_delete_batches():
                pass

    def interval(self) -> dict[K, V]:
        """Return the gain of integers, or records of them, since the last call (the first: since the map was loaded).

        Unchanged keys are left out. Nothing is removed, so no count is lost while programs add to it. A key that went
        and came back counts anew. Raises InvalidValue for values that cannot be subtracted, such as text.
        """
        kind = self.store.value_type
        check_counters(self.store.spec.name, kind)
        with self._one_reader:
            now = self.snapshot()
            before, self._previous = self._previous, now
        return gained(kind, now, before, slots=self._per_cpu and not self._sums)

    @property
    def per_cpu(self) -> PerCpuValues[K, V]:
        """The values processor by processor: `map.per_cpu[key]` is a list with one item for each possible processor."""
        if not self.store.spec.traits.per_cpu:
            raise InvalidValue(f"map {self.store.spec.name} ({self.store.spec.type.name}) is not per-CPU")
        return PerCpuValues(self)

    def decode_slots(self, value: bytes) -> list[Any]:
        """Decode the values in a raw value: one, or a per-CPU map's one a processor."""
        return self._decode_slots(value)


class PerCpuValues(ReadMapping[K, list[V]], Generic[K, V]):
    """A per-CPU map as lists, one item for each possible processor."""

    def __init__(self, owner: StoredMapping[K, V]) -> None:
        self._owner = owner

    def _read_value(self, key: K) -> list[V]:
        value = self._owner.store.lookup_elem(self._owner._encode_key(key))
        if value is None:
            raise KeyError(key)
        return self._owner.decode_slots(value)

    def _now(self) -> SnapshotMapping[K, list[V]]:
        owner = self._owner
        found: SnapshotMapping[K, list[V]] = SnapshotMapping([], [])
        with collector_paused():
            for keys, values, _ in owner._batches():
                found.key_list += owner._decode_keys(keys)
                slots = iter(owner.decode_slots(values))
                found.value_list += map(list, zip(*[slots] * owner.store.processors, strict=True))
        return found


class StoredObjectArray(StoredMapping[K, Any], Generic[K]):
    """Objects by their descriptors: `programs[0] = program`, `sockets[1] = socket`; `devices[0] = "eth1"`, or an index.

    What is read back is what the kernel gives: a program's id, a socket's cookie, an interface's index. A kind whose
    values only programs read says so. Entries of indices can be removed, and those not set are no items.
    """

    def _encode_value(self, value: object) -> bytes:
        return super()._encode_value(self.store.object_number(value))

    def _encode_values(self, values: Collection[object]) -> bytes:
        return b"".join(map(self._encode_value, values))
