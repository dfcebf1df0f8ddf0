"""The language's integers, maps and records in CPython, so that the same source runs there.

Two subclasses of int: whatever touches a U64 is a U64, all else an S64, each result wrapped to 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyebpf.types import INTEGERS, IntType, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["S64", "U64", "Model", "ModelMap", "ModelRecord", "converter", "typed"]


class Model(int):
    """What both have in common: Python's operators, wrapped."""

    signed: ClassVar[bool]

    def __new__(cls, value: int) -> Self:
        return super().__new__(cls, wrap(int(value), 8, signed=cls.signed))

    def _with(self, other: int) -> type[Model]:
        return U64 if isinstance(self, U64) or isinstance(other, U64) else S64

    def __add__(self, other: int) -> Model:
        return self._with(other)(int(self) + int(other))

    __radd__ = __add__

    def __sub__(self, other: int) -> Model:
        return self._with(other)(int(self) - int(other))

    def __rsub__(self, other: int) -> Model:
        return self._with(other)(int(other) - int(self))

    def __mul__(self, other: int) -> Model:
        return self._with(other)(int(self) * int(other))

    __rmul__ = __mul__

    def __and__(self, other: int) -> Model:
        return self._with(other)(int(self) & int(other))

    __rand__ = __and__

    def __or__(self, other: int) -> Model:
        return self._with(other)(int(self) | int(other))

    __ror__ = __or__

    def __xor__(self, other: int) -> Model:
        return self._with(other)(int(self) ^ int(other))

    __rxor__ = __xor__

    def __lshift__(self, other: int) -> Model:
        return self._with(other)(int(self) << (int(other) & 63))

    def __rshift__(self, other: int) -> Model:
        return type(self)(int(self) >> (int(other) & 63))

    def __floordiv__(self, other: int) -> Model:
        return self._with(other)(int(self) // int(other) if other else 0)

    def __mod__(self, other: int) -> Model:
        return self._with(other)(int(self) % int(other) if other else int(self))

    def __neg__(self) -> Model:
        return S64(-int(self))

    def __invert__(self) -> Model:
        return type(self)(~int(self))

    def __abs__(self) -> Model:
        return S64(abs(int(self)))

    def __hash__(self) -> int:
        return int.__hash__(self)


class S64(Model):
    """A signed number."""

    signed = True


class U64(Model):
    """An unsigned number."""

    signed = False


def typed(type_: IntType, value: int) -> Model:
    """What a stored value reads back as: everything narrower than 64 bits is loaded into an s64."""
    return (U64 if type_.size == 8 and not type_.signed else S64)(type_.wrap(int(value)))


def converter(type_: IntType) -> Callable[[int], Model]:
    """`T(x)`."""
    return lambda value: typed(type_, int(value))


class ModelMap:
    """A map of integers, as a probe uses it and as a test reads it."""

    def __init__(self, key: IntType, value: IntType, size: int = 0) -> None:
        self.key = key
        self.value = value
        self.entries: dict[int, int] = dict.fromkeys(range(size), 0)

    def __getitem__(self, key: int) -> Model:
        # `m[k] += v` of a missing key begins with 0.
        return typed(self.value, self.entries.get(self.key.wrap(int(key)), 0))

    def __setitem__(self, key: int, value: int) -> None:
        self.entries[self.key.wrap(int(key))] = self.value.wrap(int(value))

    def __delitem__(self, key: int) -> None:
        self.entries.pop(self.key.wrap(int(key)), None)

    def __contains__(self, key: int) -> bool:
        return self.key.wrap(int(key)) in self.entries

    def get(self, key: int, default: int) -> Model:
        """The value, or the default as a number of the map's type."""
        if key in self:
            return self[key]
        return typed(self.value, default)


class ModelRecord:
    """A record: every store cuts to the field's type, every load widens."""

    fields: ClassVar[dict[str, IntType]] = {}

    def __init__(self, **values: int) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: int) -> None:
        super().__setattr__(name, typed(self.fields[name], int(value)))

    def __iter__(self) -> Iterator[Any]:
        return iter(getattr(self, name) for name in self.fields)


def names() -> dict[str, Any]:
    """The types by name, for the namespace of a program."""
    return {name: converter(type_) for name, type_ in INTEGERS.items() if name != "bool"}
