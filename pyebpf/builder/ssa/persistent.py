"""A mapping that is never changed: a radix tree that shares all but one path with what is made from it.

What is known at one point of a function goes along every path from there, and most of it is the same where the paths
meet. Copying it at each branch and comparing all of it at each join takes time that grows with the square of the
function's length; here all paths have the same mapping, and a comparison looks at what differs.
"""

from __future__ import annotations

from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

V = TypeVar("V")
D = TypeVar("D")

#: Bits of a key that each level of the tree looks at.
_BITS = 5
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1
_PLACES = range(_WIDTH)
#: A node: values in the lowest level, nodes above it; None for what is not there.
_Node = list[Any]
_EMPTY: _Node = [None] * _WIDTH


class PersistentMap(Generic[V]):
    """From natural numbers, the smaller the faster, to anything but None."""

    __slots__ = ("_root", "_shift")

    def __init__(self, root: _Node = _EMPTY, shift: int = 0) -> None:
        self._root = root
        #: Bits by which a key is shifted for its place in the root.
        self._shift = shift

    @overload
    def get(self, key: int) -> V | None: ...
    @overload
    def get(self, key: int, default: D) -> V | D: ...
    def get(self, key: int, default: object = None) -> object:
        """Return what a key stands for, or the default."""
        shift, node = self._shift, self._root
        if not 0 <= key >> shift < _WIDTH:
            return default
        while shift:
            node = node[key >> shift & _MASK]
            if node is None:
                return default
            shift -= _BITS
        found = node[key & _MASK]
        return default if found is None else found

    def __getitem__(self, key: int) -> V:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: int) -> bool:
        return self.get(key) is not None

    def with_item(self, key: int, value: V) -> PersistentMap[V]:
        """Return a mapping in which a key stands for a value, whatever it stood for here."""
        root, shift = self._root, self._shift
        while key >> shift >= _WIDTH:
            root = [root if root is not _EMPTY else None, *_EMPTY[1:]]
            shift += _BITS
        return _changed(root, shift, key, value)

    def without(self, key: int) -> PersistentMap[V]:
        """Return a mapping without a key, be it here or not."""
        return _changed(self._root, self._shift, key, None) if key in self else self

    def values(self) -> Iterator[V]:
        """All values, in the order of their keys."""
        nodes = [self._root]
        for _ in range(0, self._shift, _BITS):
            nodes = [below for node in nodes for below in node if below is not None]
        return (value for node in nodes for value in node if value is not None)

    def common(self, other: PersistentMap[V]) -> PersistentMap[V]:
        """Return a mapping with the keys that stand for the same object here and there."""
        if self._root is other._root:
            return self
        one, two, shift = self._level_with(other)
        return PersistentMap(_common(one, two, shift), shift)

    def _level_with(self, other: PersistentMap[V]) -> tuple[_Node, _Node, int]:
        """The roots of two trees as if both were as high as the higher one, and the shift of that."""
        one, two = self._root, other._root
        if self._shift == other._shift:
            return one, two, self._shift
        shift = max(self._shift, other._shift)
        for _ in range(self._shift, shift, _BITS):
            one = [one, *_EMPTY[1:]]
        for _ in range(other._shift, shift, _BITS):
            two = [two, *_EMPTY[1:]]
        return one, two, shift

    def differing(self, other: PersistentMap[V]) -> list[int]:
        """Keys that stand for different objects here and there, or for one only here or there."""
        if self._root is other._root:
            return []
        one, two, shift = self._level_with(other)
        if not shift:
            return [*compress(_PLACES, map(is_not, one, two))]
        pairs: list[tuple[int, _Node, _Node]] = [(0, one, two)]
        while shift:
            pairs = [
                (prefix | place << shift, ones[place] or _EMPTY, twos[place] or _EMPTY)
                for prefix, ones, twos in pairs
                for place in compress(_PLACES, map(is_not, ones, twos))
            ]
            shift -= _BITS
        return [prefix | place for prefix, ones, twos in pairs for place in compress(_PLACES, map(is_not, ones, twos))]


def _common(one: _Node, two: _Node, shift: int) -> _Node:
    """A tree of what two have in common, which are as high as each other."""
    shared = one.copy()
    for place in compress(_PLACES, map(is_not, one, two)):
        ours, theirs = one[place], two[place]
        shared[place] = _common(ours, theirs, shift - _BITS) if shift and ours and theirs else None
    return shared


def _changed(root: _Node, shift: int, key: int, value: V | None) -> PersistentMap[V]:
    """A tree with new nodes on the way to a key."""
    made: PersistentMap[V] = PersistentMap(root.copy(), shift)
    node = made._root
    while shift:
        place = key >> shift & _MASK
        below = node[place]
        node[place] = below = (_EMPTY if below is None else below).copy()
        node = below
        shift -= _BITS
    node[key & _MASK] = value
    return made
