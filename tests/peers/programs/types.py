"""The types that values of random programs have, and what a program declares: structs, enums and maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

#: Names that C has for integers, by size and sign.
C_NAMES = {
    (8, True): "signed char",
    (8, False): "unsigned char",
    (16, True): "short",
    (16, False): "unsigned short",
    (32, True): "int",
    (32, False): "unsigned int",
    (64, True): "long",
    (64, False): "unsigned long",
}


@dataclass(frozen=True)
class Integer:
    """An integer."""

    bits: int
    signed: bool

    @property
    def name(self) -> str:
        """Its name in a cast."""
        return f"{'' if self.signed else 'u'}int{self.bits}"


@dataclass(frozen=True)
class Boolean:
    """True or false."""


@dataclass(frozen=True)
class String:
    """A string of at most so many bytes."""

    length: int


@dataclass(frozen=True)
class Enum:
    """An enum with its constants."""

    name: str
    constants: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """Its definition."""
        return f"enum {self.name} {{ {', '.join(f'{name} = {value}' for name, value in self.constants)} }}"


@dataclass(frozen=True)
class Tuple:
    """A tuple, or a record if its parts have names."""

    parts: tuple[Type, ...]
    names: tuple[str, ...] = ()

    def member(self, number: int) -> str:
        """The suffix that reads a part."""
        return f".{self.names[number] if self.names else number}"


@dataclass(frozen=True)
class Array:
    """An array of numbers, which a number was cast to."""

    element: Integer
    count: int


@dataclass(frozen=True)
class Struct:
    """A struct: declarations of its members, and the suffixes that read the numbers and texts in it."""

    name: str
    declarations: tuple[str, ...]
    readings: tuple[tuple[str, Integer | String], ...]
    size: int
    alignment: int
    #: Where texts in it have their last byte, which has to be 0.
    ends: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Its definition."""
        return f"struct {self.name} {{ {' '.join(self.declarations)} }}"


Type: TypeAlias = "Integer | Boolean | String | Enum | Tuple | Array | Struct"

INTEGERS = [Integer(bits, signed) for bits in (8, 16, 32, 64) for signed in (False, True)]
INT64, UINT64, UINT8 = Integer(64, True), Integer(64, False), Integer(8, False)


@dataclass(frozen=True)
class Map:
    """A map: types of its key's parts, and its value's type or the aggregation that it holds."""

    name: str
    keys: tuple[Type, ...]
    value: Type | str
    #: The number that an aggregation is given.
    counted: Integer = INT64


@dataclass
class Scope:
    """What a statement can name: variables by their types, and whether order matters there."""

    variables: dict[str, Type] = field(default_factory=dict)
    #: Variables that loops count with, which nothing else may change.
    fixed: set[str] = field(default_factory=set)
    #: Inside a loop over a map, whose order is open: nothing there may depend on it.
    unordered: bool = False
    #: How deep the statement is, and how often it runs at most.
    depth: int = 0
    times: int = 1
    #: Whether `break` and `continue` have a loop.
    loop: bool = False
    #: Whether it is inside `unroll`.
    unrolled: bool = False

    def inner(self, *, times: int = 1, unordered: bool = False, loop: bool | None = None) -> Scope:
        """The scope of a block in this one."""
        return Scope(
            dict(self.variables),
            set(self.fixed),
            self.unordered or unordered,
            self.depth + 1,
            self.times * times,
            self.loop if loop is None else loop,
            self.unrolled,
        )
