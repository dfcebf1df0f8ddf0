"""Tuples of types: keys and values of several parts that need no class, `(u32, char[16])`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue
from pyebpf.types.structs import MISSING, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.types.base import Type


class TupleType(StructType):
    """A record without a class, laid out as a Struct of the same fields; in Python its values are tuples."""

    def __init__(self, elements: Sequence[Type]) -> None:
        super().__init__("tuple", [(f"_{number}", element, MISSING) for number, element in enumerate(elements)])
        self.name = f"({', '.join(element.name for element in elements)}{',' if len(elements) == 1 else ''})"

    @property
    def elements(self) -> tuple[Type, ...]:
        """The types of the parts."""
        return tuple(field.type for field in self.fields)

    def as_key(self) -> Type:
        keys = [element.as_key() for element in self.elements]
        return self if all(map(_same, keys, self.elements)) else TupleType(keys)

    def values(self, record: object) -> Sequence[object]:
        if not isinstance(record, tuple | list) or len(record) != len(self.fields):
            raise InvalidValue(f"{record!r} is not of type {self.name}: give a tuple of {len(self.fields)}")
        return record

    def make(self, values: Iterator[object]) -> object:
        return tuple(values)


def _same(one: Type, other: Type) -> bool:
    return one is other
