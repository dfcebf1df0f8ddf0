"""The entries of a map at one moment, as lists: what `items()`, `keys()`, `values()` and `dict(m)` are made of."""

from __future__ import annotations

import sys
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from types import FrameType
    from typing import TypeAlias

    _Merge: TypeAlias = tuple[FrameType, int, list[Any], list[Any]]

#: No value of a map.
NOT_NEXT = object()
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

    # The caller's frame, the instruction in it, and what is still to be asked for: keys and values, the last first.
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

    def _ahead(self, merge: _Merge, key: object, frame: object) -> Any:
        """The value of `key`, if that is what the merge asks for next; NOT_NEXT if not, and the merge is over."""
        caller, at, keys, values = merge
        if frame is caller and frame.f_lasti == at and keys and keys.pop() is key:
            if not keys:
                self._merge = None
            return values.pop()
        self._merge = None
        return NOT_NEXT


class _MergingKeys(_Keys[K]):
    def __init__(self, mapping: SnapshotMapping[K, Any], owner: Merging, caller: tuple[int, int]) -> None:
        super().__init__(mapping)
        self._owner, self._caller = owner, caller

    def __iter__(self) -> Iterator[K]:
        found, frame = self._mapping, sys._getframe(1)
        if found.key_list and (id(frame), frame.f_lasti) == self._caller:
            self._owner._merge = (frame, frame.f_lasti, found.key_list[::-1], found.value_list[::-1])
        return iter(found.key_list)
