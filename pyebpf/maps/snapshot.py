"""The entries of a map at one moment, as lists: what `items()`, `keys()`, `values()` and `dict(m)` are made of."""

from __future__ import annotations

import sys
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from functools import cached_property
from itertools import chain, islice
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from types import FrameType
    from typing import TypeAlias

    # The keys that are still to be asked for, with their values; the caller's frame, and the instruction in it; the
    # integer above which a key need not be asked for from there: infinite until one was.
    _Merge: TypeAlias = tuple[Iterator[tuple[Any, Any]], FrameType, int, float]

#: Python has one object for each of some small integers (up to 256, or later 1,024). Of an integer above this one that
#: was decoded nobody else has the object.
SHARED_INTEGERS = 65_535

#: Entries that take longer to count than _JUST_NOW, in seconds.
_MANY, _JUST_NOW = 10_000, 0.001

K = TypeVar("K")
V = TypeVar("V")


class SnapshotMapping(Mapping[K, V]):
    """Keys and their values, in the same order. The table that finds a key is made when one is asked for."""

    def __init__(self, keys: list[K], values: list[V]) -> None:
        self.key_list, self.value_list = keys, values

    @classmethod
    def of(cls, items: ItemsView[K, V]) -> Self:
        """The mapping that a view belongs to, or one of the same items."""
        if isinstance(items, _Items) and isinstance(items._mapping, cls):
            return items._mapping
        keys, values = [], []
        for key, value in items:
            keys.append(key)
            values.append(value)
        return cls(keys, values)

    @cached_property
    def _table(self) -> dict[K, V]:
        return dict(zip(self.key_list, self.value_list, strict=True))

    def __getitem__(self, key: K) -> V:
        return self._table[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self.key_list)

    def __len__(self) -> int:
        return len(self.key_list)

    def items(self) -> ItemsView[K, V]:
        """Pairs of key and value."""
        return _Items(self)

    def keys(self) -> KeysView[K]:
        """The keys."""
        return _Keys(self)

    def values(self) -> ValuesView[V]:
        """The values."""
        return _Values(self)


class _View:
    """One aspect of a snapshot, in its order."""

    _mapping: SnapshotMapping[Any, Any]

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:].lower()}({list(self)!r})"

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[object]:
            """Given by each view."""

    def __reversed__(self) -> Iterator[Any]:
        yield from reversed(list(self))


class _Items(_View, ItemsView[K, V]):
    def __iter__(self) -> Iterator[tuple[K, V]]:
        return zip(self._mapping.key_list, self._mapping.value_list, strict=True)


class _Values(_View, ValuesView[V]):
    def __iter__(self) -> Iterator[V]:
        return iter(self._mapping.value_list)


class _Keys(_View, KeysView[K]):
    def __iter__(self) -> Iterator[K]:
        return iter(self._mapping.key_list)


class Merging:
    """Means for `dict(m)`, `{**m}` and `d.update(m)` to take the values that `keys()` has read with the keys.

    These call `keys()`, list what it gives, and ask for each key in turn, from code in C: within one instruction of
    their caller, so that nothing of the caller's comes between. That is what is recognised, by the caller's frame and
    the place in it: keys() and the iteration over its result, then the same keys, the very objects, in their order.
    Whatever else asks for a key, another thread or a handler of a signal, is given what the map holds.
    """

    # Other threads may end a merge at any time: whoever takes part in one holds it by a name of its own.
    _merge: _Merge | None = None
    # The caller that went over all keys last, where in it, how many there were, when.
    _listing: tuple[int, int, int, float] | None = None

    def _note_listing(self, count: int, frame: FrameType) -> None:
        self._listing = (id(frame), frame.f_lasti, count, monotonic()) if count >= _MANY else None

    def _count_of_listing(self, frame: FrameType) -> int | None:
        """How many keys there were just now, for list(m) and its like: they want the length as a hint.

        They ask for an iterator and then for the length, within one instruction. Counting takes as long as reading.
        """
        listing, self._listing = self._listing, None
        if listing is None or listing[:2] != (id(frame), frame.f_lasti) or monotonic() - listing[3] > _JUST_NOW:
            return None
        return listing[2]

    def _merging_keys(self, found: SnapshotMapping[K, V], frame: FrameType) -> KeysView[K]:
        """View of the keys of `found`, given to whom `frame` belongs."""
        return _MergingKeys(found, self, (id(frame), frame.f_lasti))

    def _begin_merge(self, found: SnapshotMapping[Any, Any], frame: FrameType) -> None:
        first = zip(islice(found.key_list, len(found) - 1), found.value_list, strict=False)
        pairs = chain(first, self._last_pair(found.key_list[-1], found.value_list[-1]))
        self._merge = pairs, frame, frame.f_lasti, inf

    def _last_pair(self, key: object, value: object) -> Iterator[tuple[object, object]]:
        """Nothing is kept when the last key is asked for."""
        self._merge = None
        yield key, value

    def _continue_merge(self, merge: _Merge, frame: FrameType) -> bool:
        """Whether the very key that a merge expects next was asked for by its caller."""
        pairs, caller, at, _ = merge
        if frame is not caller or frame.f_lasti != at:
            return False
        if self._merge is merge:
            self._merge = pairs, caller, at, SHARED_INTEGERS
        return True


class _MergingKeys(_Keys[K]):
    def __init__(self, mapping: SnapshotMapping[K, Any], owner: Merging, caller: tuple[int, int]) -> None:
        super().__init__(mapping)
        self._owner, self._caller = owner, caller

    def __iter__(self) -> Iterator[K]:
        found, frame = self._mapping, sys._getframe(1)
        if found.key_list and (id(frame), frame.f_lasti) == self._caller:
            self._owner._begin_merge(found, frame)
        return iter(found.key_list)
