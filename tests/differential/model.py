"""The language's integers, maps and records in CPython, so that the same source runs there.

Two subclasses of int: whatever touches a U64 is a U64, all else an S64, each result wrapped to 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyebpf.types import INTEGERS, IntType, Struct, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["S64", "U64", "Model", "ModelArray", "ModelMap", "ModelRecord", "ModelTable", "converter", "plain", "typed"]


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

    def __rlshift__(self, other: int) -> Model:
        return S64(int(other) << (int(self) & 63))

    def __rrshift__(self, other: int) -> Model:
        return S64(int(other) >> (int(self) & 63))

    def __floordiv__(self, other: int) -> Model:
        return self._with(other)(int(self) // int(other) if other else 0)

    def __mod__(self, other: int) -> Model:
        return self._with(other)(int(self) % int(other) if other else int(self))

    def __rfloordiv__(self, other: int) -> Model:
        return S64(other) // self

    def __rmod__(self, other: int) -> Model:
        return S64(other) % self

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


class ModelText(str):
    """A text that has NULs behind its end."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> ModelText:
        if isinstance(index, slice):
            return ModelText(super().__getitem__(index))
        return ModelText(super().__getitem__(index) if int(index) < len(self) else "\0")


class ModelArray:
    """An array inside a record: every store cuts, every load widens. Only indices that lie inside are taken."""

    def __init__(self, type_: IntType, values: Iterable[int]) -> None:
        self.type = type_
        self.values = [type_.wrap(int(value)) for value in values]

    def _index(self, index: int) -> int:
        assert -1 <= index < len(self.values), f"index {index} of {len(self.values)}: the generator's fault"
        return int(index)

    def __getitem__(self, index: int) -> Model:
        return typed(self.type, self.values[self._index(index)])

    def __setitem__(self, index: int, value: int) -> None:
        self.values[self._index(index)] = self.type.wrap(int(value))

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Model]:
        return (self[index] for index in range(len(self)))


class ModelRecord:
    """A record: every store cuts to the field's type, every load widens; records and arrays are stored as copies.

    `fields` has an integer type for each number, a pair of that and a length for each array, another such class for
    each record, and None for each text.
    """

    fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self.fields[name]
        if kind is None:
            held: Any = ModelText(value)
        elif isinstance(kind, tuple):
            held = ModelArray(kind[0], value)
            assert len(held) == kind[1]
        elif isinstance(kind, type):
            held = value.copy()
        else:
            held = typed(kind, int(value))
        super().__setattr__(name, held)

    def copy(self) -> Self:
        """Another of the same values."""
        return type(self)(**{name: getattr(self, name) for name in self.fields})


class ModelTable:
    """A map of records, or one that is asked by texts: a store copies, a look-up gives the record itself."""

    def __init__(self, entries: Iterable[tuple[Any, Any]] = (), missing: type[Model] | None = None) -> None:
        self.entries: dict[Any, Any] = dict(entries)
        self.missing = missing

    @staticmethod
    def _key(key: Any) -> Any:
        return str(key) if isinstance(key, str) else int(key) & 0xFFFF_FFFF

    @staticmethod
    def _copy(value: Any) -> Any:
        return value.copy() if isinstance(value, ModelRecord) else value

    def __getitem__(self, key: Any) -> Any:
        key = self._key(key)
        return self.missing(0) if self.missing and key not in self.entries else self.entries[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries[self._key(key)] = self._copy(value)

    def __delitem__(self, key: Any) -> None:
        self.entries.pop(self._key(key), None)

    def __contains__(self, key: Any) -> bool:
        return self._key(key) in self.entries

    def get(self, key: Any) -> Any:
        """The entry or None."""
        return self.entries.get(self._key(key))

    def add(self, key: Any, value: Any) -> bool:
        """Store it if the key is new; whether it was."""
        if key in self:
            return False
        self[key] = value
        return True

    def pop(self, key: Any) -> Any:
        """The entry, which is there no longer, or None."""
        return self.entries.pop(self._key(key), None)


def plain(value: Any) -> Any:
    """A value of either side, as numbers, texts and tuples that can be compared."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, ModelArray):
        return tuple(value.values)
    if isinstance(value, ModelRecord):
        return tuple(plain(getattr(value, name)) for name in value.fields)
    if isinstance(value, Struct):
        return tuple(plain(getattr(value, each.name)) for each in type(value).layout.fields)
    return tuple(value)


def names() -> dict[str, Any]:
    """The types by name, for the namespace of a program."""
    return {name: converter(type_) for name, type_ in INTEGERS.items() if name != "bool"}
