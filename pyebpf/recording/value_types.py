"""Types of recorded values: what a column declares is what a writer writes, and what a reader takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Python's types of a value, by JSON Schema's name of its field's. A field of text may have anything, which is shown as
#: its text: so may what a column's function gives, of which nobody declares a type.
_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (tuple, list),
}
_WORDS = {int: "an integer", bool: "a truth value", float: "a fraction", str: "text", dict: "a mapping"}
#: Combinations of types that are remembered at most.
_MOST_KNOWN = 1 << 10
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


class Mismatch(ValueError):
    """A value that is not of the type that its column declares."""


class ValueTypes:
    """The types of a record's values, as columns declare them: `(number of the value, name, type, drawn)` each.

    A value of several columns has one of their types, and any value may be None.
    """

    def __init__(self, count: int, columns: Iterable[tuple[int | None, str, object, bool]]) -> None:
        self._allowed: list[tuple[type, ...]] = [()] * count
        self._names = [""] * count
        self._drawn: list[int] = []
        for slot, name, kind, drawn in columns:
            if slot is None:
                continue
            allowed = (int,) if drawn else _allowed(kind)
            before = self._allowed[slot]
            self._allowed[slot] = (
                allowed if not self._names[slot] else (*before, *allowed) if before and allowed else ()
            )
            self._names[slot] = name
            if drawn:
                self._drawn.append(slot)
        self._known: set[tuple[type, ...]] = set()

    def check(self, values: Sequence[Any]) -> None:
        """Raise Mismatch for a value that its column does not declare."""
        types = tuple(map(type, values))
        if types not in self._known:
            for value, allowed, name in zip(values, self._allowed, self._names, strict=True):
                if value is not None and allowed and not isinstance(value, allowed):
                    wanted = " or ".join(_WORDS.get(each, "a sequence") for each in dict.fromkeys(allowed))
                    raise Mismatch(f"the field {name} is {_words(value)}, and its column declares {wanted}")
            if len(self._known) < _MOST_KNOWN:
                self._known.add(types)
        for slot in self._drawn:
            if values[slot] is not None and not _LEAST <= values[slot] <= _MOST:
                raise Mismatch(f"the field {self._names[slot]} is a number out of its bounds")


def _words(value: object) -> str:
    return next((words for kind, words in _WORDS.items() if type(value) is kind), "a sequence")


def _allowed(kind: object) -> tuple[type, ...]:
    """Python's types for a type of JSON Schema, of which there may be several; none if that may be anything."""
    found: list[type] = []
    for each in kind if isinstance(kind, list) else [kind]:
        if each == "null":
            continue
        types = _TYPES.get(each) if isinstance(each, str) else None
        if types is None:
            return ()
        found += types
    return tuple(found)
