"""Gains of counters between two readings of a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.types.arrays import ArrayType
from pyebpf.types.integers import IntType
from pyebpf.types.structs import StructType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.types.base import Type


def check_counters(map_name: str, kind: Type | None) -> None:
    """Raise InvalidValue unless a map's values are integers, or records and arrays of nothing but integers."""
    uncountable = _uncountable(kind, "a value of this one")
    if uncountable is not None:
        what, found = uncountable
        raise InvalidValue(
            f"map {map_name}: interval() subtracts integers, and {what} is not an integer but {found!r}: "
            "read the map by snapshot(), or take its entries out by drain()"
        )


def gained(kind: Type, now: Mapping[Any, Any], before: Mapping[Any, Any], *, slots: bool = False) -> dict[Any, Any]:
    """The difference under each key whose value has changed; with `slots`, values are lists of one for each processor.

    A value of which anything is smaller than before went and came back: it counts anew.
    """
    if slots:
        kind = ArrayType(kind, max(map(len, now.values()), default=1))
    earlier = before.get
    if isinstance(kind, IntType):
        gains = {key: value - low if (low := earlier(key, 0)) <= value else value for key, value in now.items()}
        return {key: gain for key, gain in gains.items() if gain}
    gains = {
        key: value if _shrunk(kind, value, old := earlier(key)) else _difference(kind, value, old)
        for key, value in now.items()
    }
    return {key: gain for key, gain in gains.items() if any(_leaves(kind, gain))}


def _shrunk(kind: Type, value: object, earlier: object) -> bool:
    """Whether a value is new, or has less of anything than before."""
    if earlier is None:
        return True
    return any(a < b for a, b in zip(_leaves(kind, value), _leaves(kind, earlier), strict=True))


def _uncountable(kind: Type | None, name: str) -> tuple[str, Type | None] | None:
    """The part of a type that cannot be subtracted, by name; None if there is none."""
    if isinstance(kind, StructType):
        return next(filter(None, (_uncountable(f.type, f"{kind.name}.{f.name}") for f in kind.fields)), None)
    if isinstance(kind, ArrayType):
        return _uncountable(kind.element, name)
    return None if isinstance(kind, IntType) else (name, kind)


def _leaves(kind: Type, value: Any) -> Iterator[int]:
    """All integers in a value, in order."""
    if isinstance(kind, StructType):
        for f, each in zip(kind.fields, kind.values(value), strict=True):
            yield from _leaves(f.type, each)
    elif isinstance(kind, ArrayType):
        for each in value:
            yield from _leaves(kind.element, each)
    else:
        yield value


def _difference(kind: Type, value: Any, earlier: Any) -> object:
    if isinstance(kind, StructType):
        pairs = zip(kind.fields, kind.values(value), kind.values(earlier), strict=True)
        return kind.make(_difference(f.type, new, old) for f, new, old in pairs)
    if isinstance(kind, ArrayType):
        return [_difference(kind.element, *pair) for pair in zip(value, earlier, strict=True)]
    return value - earlier
