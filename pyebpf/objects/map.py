"""`Map`: a kernel map made from a spec, as a Python mapping."""

from __future__ import annotations

import errno
import sys
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue, KernelError
from pyebpf.kernel import map_elements
from pyebpf.objects import elements
from pyebpf.objects.kernel_map import KernelMap
from pyebpf.specs.map_traits import Key, MapOperation
from pyebpf.types import U32, IntType
from pyebpf.types.codecs import decoder, encode_all, slot_decoder, slot_size
from pyebpf.types.differences import check_counters, gained
from pyebpf.types.snapshot import NOT_NEXT, Merging, SnapshotMapping
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.specs import MapSpec

__all__ = ["Map", "PerCpuValues"]

_MISSING: Any = object()
_NOEXIST = 1
_UNSIZED = 1 << 20


class Map(Merging, KernelMap, MutableMapping[Any, Any]):
    """One kernel map; owns its descriptor. Keys and values are Python values of the spec's types.

    A per-CPU map's integers are summed over all processors, and `per_cpu[k]` lists them; its other values are lists
    with one item a processor. Array kinds hold every index at all times: their entries can't be removed. Iteration is
    safe while programs change the map: an entry that stays is seen exactly once.

    Raises KeyError for a missing key, InvalidValue for a key or value that does not fit its type, KernelError if a
    hash is full, NotLoaded after `close()`.
    """

    def __init__(self, spec: MapSpec, descriptor: Descriptor | None = None) -> None:
        super().__init__(spec, descriptor)
        key, value = self.key_type, self.value_type
        if key is not None and value is not None:
            self._decode_keys = decoder(key.as_key())
            self._decode_slots = slot_decoder(value) if spec.traits.per_cpu else decoder(value)
            self._sums = spec.traits.per_cpu and isinstance(value, IntType)
        self._previous: dict[Any, Any] = {}
        # Keys that popitem() tries next, the last first, and where more of them come from.
        self._spare: list[bytes] = []
        self._more: Iterator[elements.Batch] = iter(())

    __eq__ = object.__eq__  # one map is not another of equal content, which may change the next moment
    __hash__ = object.__hash__

    # --- single elements ---

    def _key(self, key: Any) -> bytes:
        if self.key_type is None:
            raise InvalidValue(f"map {self.spec.name} ({self.spec.kind.name}) has no keys: read it as events")
        return self.key_type.encode(key)

    def _decode(self, values: bytes) -> list[Any]:
        """Values laid end to end, as user space sees them."""
        flat = self._decode_slots(values)
        if not self.spec.traits.per_cpu:
            return flat
        parts = zip(*[iter(flat)] * self._slots, strict=True)
        return list(map(sum if self._sums else list, parts))

    def _encode(self, value: Any) -> bytes:
        kind = self.value_type
        assert kind is not None
        if not self.spec.traits.per_cpu:
            return kind.encode(value)
        size = slot_size(kind.size)
        if isinstance(value, list) and not self._sums:
            if len(value) != self._slots:
                raise InvalidValue(
                    f"map {self.spec.name} holds a value for each of {self._slots} processors, not {len(value)}"
                )
            return b"".join(kind.encode(part).ljust(size, b"\0") for part in value)
        # One value stands for all: in the first slot, so that a sum reads back as what was stored.
        return kind.encode(value).ljust(size * self._slots, b"\0")

    def lookup(self, key: Any, *, flags: int = 0) -> bytes | None:
        """The value's bytes (a per-CPU map's: all slots), or None for a missing key."""
        return self._lookup(self._key(key), flags)

    def _lookup(self, encoded: bytes, flags: int = 0) -> bytes | None:
        try:
            return map_elements.map_lookup_elem(self.fileno(), encoded, self._value_size, flags | self._lock_flag)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._diagnose(error, "reading") from error

    def __getitem__(self, key: Any) -> Any:
        merge = self._merge
        if merge is not None and (ahead := self._ahead(merge, key, sys._getframe(1))) is not NOT_NEXT:
            return ahead
        value = self.lookup(key)
        if value is None:
            raise KeyError(key)
        return self._decode(value)[0]

    def __contains__(self, key: object) -> bool:
        return self.lookup(key) is not None

    def __setitem__(self, key: Any, value: Any) -> None:
        self._update(key, value, 0)

    def add(self, key: Any, value: Any) -> bool:
        """Insert unless the key is there already (BPF_NOEXIST); whether it was inserted."""
        try:
            self._update(key, value, _NOEXIST)
        except KernelError as error:
            if error.errno == errno.EEXIST:
                return False
            raise
        return True

    def _update(self, key: Any, value: Any, flags: int) -> None:
        encoded_key, encoded = self._key(key), self._encode(value)
        try:
            map_elements.map_update_elem(self.fileno(), encoded_key, encoded, flags | self._lock_flag)
        except OSError as error:
            if error.errno == errno.E2BIG and self._indexed:
                raise self._outside(key) from None
            raise self._diagnose(error, "writing") from error

    @property
    def _indexed(self) -> bool:
        """Whether keys are indices below max_entries."""
        return self.spec.traits.key is Key.INDEX and self.spec.kind is not MapType.DEVMAP_HASH

    def _outside(self, key: Any) -> InvalidValue:
        return InvalidValue(f"map {self.spec.name} has indices 0 to {self.max_entries - 1}, not {key!r}")

    def __delitem__(self, key: Any) -> None:
        encoded = self._removable(key)
        try:
            map_elements.map_delete_elem(self.fileno(), encoded)
        except FileNotFoundError:
            raise KeyError(key) from None
        except OSError as error:
            raise self._diagnose(error, "removing from") from error

    def _removable(self, key: Any) -> bytes:
        if self.spec.traits.is_array:
            raise InvalidValue(f"map {self.spec.name} is an array: its entries always exist; store 0 instead")
        return self._key(key)

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Remove a key and return its value, in one step; if it is missing the default, else KeyError."""
        encoded = self._removable(key)
        try:
            value = elements.take(self.fileno(), encoded, self._value_size)
        except FileNotFoundError:
            if default is _MISSING:
                raise KeyError(key) from None
            return default
        except OSError as error:
            raise self._diagnose(error, "removing from") from error
        return self._decode(value)[0]

    def popitem(self) -> tuple[Any, Any]:
        """Take any entry out; KeyError if there is none. Keys are read in batches, each value in one step."""
        self._removable_kind()
        try:
            value = self._first(lambda key: elements.take(self.fileno(), key, self._value_size))
        except OSError as error:
            raise self._diagnose(error, "removing from") from error
        if value is None:
            raise KeyError(f"map {self.spec.name} is empty")
        return self._decode_keys(self._spare.pop())[0], self._decode(value)[0]

    def __bool__(self) -> bool:
        if self.spec.traits.is_array:
            return self.max_entries > 0
        return self._first(self._lookup) is not None

    def _first(self, attempt: Callable[[bytes], bytes | None]) -> bytes | None:
        """Return the result of `attempt` for the first key that it finds, then the last of `_spare`; None if empty."""
        self.fileno()
        for _ in range(2):  # the keys that were read before, then those that there are now
            while True:
                while self._spare:
                    try:
                        found = attempt(self._spare[-1])
                    except FileNotFoundError:
                        found = None
                    if found is not None:
                        return found
                    self._spare.pop()  # removed since it was read
                keys = next(self._more, (b"",))[0]
                if not keys:
                    break
                size = self._key_size
                self._spare = [keys[at : at + size] for at in range(len(keys) - size, -1, -size)]
            self._more = self._batches()
        return None

    def update(self, *arguments: Any, **more: Any) -> None:
        """Set many entries, as `dict.update` does: in batches where the kernel has them.

        Those before a failure stay.
        """
        given = dict(*arguments, **more)
        if not given:
            return
        kind = self.value_type
        if self.key_type is None or kind is None:
            self._key(None)
        assert self.key_type is not None
        assert kind is not None
        keys = encode_all(self.key_type, given)
        if self.spec.traits.per_cpu:
            values = b"".join(map(self._encode, given.values()))
        else:
            values = encode_all(kind, given.values())
        try:
            elements.write(self.fileno(), len(given), keys, values, self._lock_flag)
        except OSError as error:
            if error.errno == errno.E2BIG and self._indexed:
                raise self._outside(max(given)) from None
            raise self._diagnose(error, "writing") from error

    def remove(self, keys: Iterable[Any]) -> int:
        """Remove many keys, in batches where the kernel has them; how many of them were there."""
        encoded = [self._removable(key) for key in keys]
        try:
            return elements.remove(self.fileno(), encoded)
        except OSError as error:
            raise self._diagnose(error, "removing from") from error

    # --- all elements ---

    @property
    def _capacity(self) -> int:
        """Entries that there may be; what the kernel sizes by itself (max_entries 0) has no number."""
        return self.max_entries or _UNSIZED

    def raw_items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values as bytes; a per-CPU value is all slots laid end to end."""
        key_size, value_size = self._key_size, self._value_size
        for keys, values, count in self._batches():
            for index in range(count):
                yield (
                    keys[index * key_size : (index + 1) * key_size],
                    values[index * value_size : (index + 1) * value_size],
                )

    def _batches(self) -> Iterator[elements.Batch]:
        can = self.spec.traits.operations
        if self.key_type is None:
            raise InvalidValue(f"map {self.spec.name} ({self.spec.kind.name}) has no items: read it as events")
        if not can & MapOperation.ITERATE or not can & MapOperation.LOOKUP:
            readable = can & MapOperation.LOOKUP
            way = "look its keys up one by one" if readable else "the kernel gives its values to programs only"
            raise InvalidValue(f"map {self.spec.name} ({self.spec.kind.name}) lists no items: {way}")
        try:
            batches = elements.read_any(
                self.fileno(), self._key_size, self._value_size, self._capacity, self._lock_flag
            )
            if self.spec.kind is MapType.LPM_TRIE:
                batches = elements.once(batches, self._key_size, self._value_size, self._capacity)
            yield from batches
        except OSError as error:
            raise self._diagnose(error, "reading") from error

    def snapshot(self) -> dict[Any, Any]:
        """All items now, as a dictionary."""
        result: dict[Any, Any] = {}
        for keys, values, _ in self._batches():
            result.update(zip(self._decode_keys(keys), self._decode(values), strict=True))
        return result

    def _now(self) -> SnapshotMapping:
        found = SnapshotMapping([], [])
        for keys, values, _ in self._batches():
            found.key_list += self._decode_keys(keys)
            found.value_list += self._decode(values)
        return found

    def items(self) -> ItemsView[Any, Any]:
        """All items as they are now: the map may change meanwhile."""
        return self._now().items()

    def keys(self) -> KeysView[Any]:
        """All keys as they are now."""
        return self._merging_keys(self._now(), sys._getframe(1))

    def values(self) -> ValuesView[Any]:
        """All values as they are now."""
        return self._now().values()

    def __iter__(self) -> Iterator[Any]:
        return iter([key for keys, _, _ in self._batches() for key in self._decode_keys(keys)])

    def __len__(self) -> int:
        if self.spec.traits.is_array:
            return self.max_entries
        return sum(count for _, _, count in self._batches())

    def drain(self) -> dict[Any, Any]:
        """Take all entries out and return them: each one is counted exactly once over successive calls."""
        self._removable_kind()
        result: dict[Any, Any] = {}
        try:
            for keys, values, _ in elements.drain(self.fileno(), self._key_size, self._value_size, self._capacity):
                result.update(zip(self._decode_keys(keys), self._decode(values), strict=True))
        except OSError as error:
            raise self._diagnose(error, "emptying") from error
        return result

    def _removable_kind(self) -> None:
        if self.spec.traits.is_array:
            raise InvalidValue(f"map {self.spec.name} is an array: its entries always exist; use clear()")

    def clear(self) -> None:
        """Remove all entries; set those of an array to zero."""
        try:
            if self.spec.traits.is_array:
                count = self.max_entries
                elements.write(self.fileno(), count, encode_all(U32, range(count)), bytes(self._value_size * count))
                return
            for _ in elements.drain(self.fileno(), self._key_size, self._value_size, self._capacity):
                pass
        except OSError as error:
            raise self._diagnose(error, "clearing") from error

    def interval(self) -> dict[Any, Any]:
        """Return the increase of integers, or records of them, since the last call (the first: since the map was made).

        Unchanged keys are left out. Nothing is removed, so no count is lost while programs add to it. A key that went
        and came back counts anew. Raises InvalidValue for values that cannot be subtracted, such as text.
        """
        check_counters(self.spec.name, self.value_type)
        assert self.value_type is not None
        now = self.snapshot()
        before, self._previous = self._previous, now
        return gained(self.value_type, now, before, slots=self.spec.traits.per_cpu and not self._sums)

    @property
    def per_cpu(self) -> PerCpuValues:
        """The values processor by processor: `map.per_cpu[key]` is a list with one item for each possible processor."""
        if not self.spec.traits.per_cpu:
            raise InvalidValue(f"map {self.spec.name} ({self.spec.kind.name}) is not per-CPU")
        return PerCpuValues(self)

    def decode_slots(self, value: bytes) -> list[Any]:
        """Decode the values in a raw value: one, or a per-CPU map's one a processor."""
        return self._decode_slots(value)

    def lists(self) -> SnapshotMapping:
        """All entries of a per-CPU map as they are now, each value a list with one item a processor."""
        found = SnapshotMapping([], [])
        for keys, values, _ in self._batches():
            found.key_list += self._decode_keys(keys)
            found.value_list += map(list, zip(*[iter(self._decode_slots(values))] * self._slots, strict=True))
        return found


class PerCpuValues(Mapping[Any, list[Any]]):
    """A per-CPU map as lists, one item for each possible processor."""

    def __init__(self, owner: Map) -> None:
        self._owner = owner

    def __getitem__(self, key: Any) -> list[Any]:
        value = self._owner.lookup(key)
        if value is None:
            raise KeyError(key)
        return self._owner.decode_slots(value)

    def items(self) -> ItemsView[Any, list[Any]]:
        """All items as they are now."""
        return self._owner.lists().items()

    def values(self) -> ValuesView[list[Any]]:
        """All values as they are now."""
        return self._owner.lists().values()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._owner)

    def __len__(self) -> int:
        return len(self._owner)
