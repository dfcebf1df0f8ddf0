"""Numbers of other programs' maps that the language has no type for: of 128 bits, and floating point."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.types.base import Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from construct import Construct

_SIZE = 16


class WideIntType(Type):
    """C's `__int128`: an int in Python."""

    def __init__(self, *, signed: bool) -> None:
        self.signed = signed
        self.size = self.align = _SIZE
        self.name = "s128" if signed else "u128"
        self.c_name = "__int128" if signed else "unsigned __int128"
        self.format = f"{_SIZE}s"

    def assemble(self, plain: Iterator[Any]) -> int:
        return int.from_bytes(next(plain), "little", signed=self.signed)

    def scatter(self, value: object) -> list[object]:
        if isinstance(value, int):
            try:
                return [value.to_bytes(_SIZE, "little", signed=self.signed)]
            except OverflowError:
                pass
        raise InvalidValue(f"{value!r} does not fit {self.name}: give an integer of 128 bits")

    @cached_property
    def construct(self) -> Construct:
        import construct

        return construct.BytesInteger(_SIZE, signed=self.signed, swapped=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WideIntType) and self.signed == other.signed

    def __hash__(self) -> int:
        return hash(self.name)


class FloatType(Type):
    """C's `float` or `double`, which programs can only pass on: a float in Python."""

    def __init__(self, name: str, size: int, code: str) -> None:
        self.name = self.c_name = name
        self.size = self.align = size
        self.format = code

    def assemble(self, plain: Iterator[Any]) -> float:
        value: float = next(plain)
        return value

    def scatter(self, value: object) -> list[object]:
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                self.packer.pack(value)
            except OverflowError:
                pass
            else:
                return [value]
        raise InvalidValue(f"{value!r} does not fit {self.name}: give a number in its range")

    @cached_property
    def construct(self) -> Construct:
        import construct

        return construct.FormatField("<", self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FloatType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


S128, U128 = WideIntType(signed=True), WideIntType(signed=False)
#: By size in bytes.
FLOATS = {4: FloatType("float", 4, "f"), 8: FloatType("double", 8, "d")}
