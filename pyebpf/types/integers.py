"""Integer types: `u8` to `u64`, `s8` to `s64`, the big-endian ones, and `bool`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue, check_argument
from pyebpf.types.base import Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from construct import Construct

_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}


def wrap(value: int, size: int, *, signed: bool) -> int:
    """Return the low `size` bytes of `value`, read back with or without a sign."""
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if signed and value >> (8 * size - 1) else value


class IntType(Type):
    """A fixed-width integer. Big-endian ones are stored in network order and read as host-order ints."""

    def __init__(
        self,
        name: str,
        c_name: str,
        size: int,
        *,
        signed: bool,
        big_endian: bool = False,
        is_bool: bool = False,
    ) -> None:
        self.name = name
        self.c_name = c_name
        self.size = self.align = size
        self.signed = signed
        self.big_endian = big_endian
        self.is_bool = is_bool
        self.minimum = -(1 << 8 * size - 1) if signed else 0
        self.maximum = 1 if is_bool else (1 << 8 * size - signed) - 1
        #: The letter of `struct`, `array` and `memoryview.cast` for its size and sign, in the machine's order.
        self.code = _CODES[size] if signed else _CODES[size].upper()
        # Network order inside a little-endian record: unpacked as bytes, since `struct` has one order a format.
        self.format = f"{size}s" if big_endian else self.code

    def assemble(self, plain: Iterator[Any]) -> int:
        value = next(plain)
        if self.big_endian:
            return int.from_bytes(value, "big")
        return bool(value) if self.is_bool else int(value)

    def scatter(self, value: object) -> list[object]:
        if not isinstance(value, int) or not self.minimum <= value <= self.maximum:
            msg = f"{value!r} does not fit {self.name}: give an integer from {self.minimum} to {self.maximum}"
            raise InvalidValue(msg)
        return [value.to_bytes(self.size, "big") if self.big_endian else int(value)]

    @cached_property
    def construct(self) -> Construct:
        import construct

        if self.is_bool:
            return construct.Flag
        code = _CODES[self.size].replace("i", "l")  # construct has four bytes by this letter only
        return construct.FormatField(">" if self.big_endian else "<", code if self.signed else code.upper())

    def wrap(self, value: int) -> int:
        """Return the value that a store of `value` reads back as."""
        if self.is_bool:
            return int(value != 0)
        return wrap(value, self.size, signed=self.signed)

    def __call__(self, value: int) -> int:
        """Wrap `value` as the conversion `T(x)` of the language does, so that the same source runs under CPython."""
        check_argument(self.name, value, int, "an integer")
        return self.wrap(value)

    def __getitem__(self, length: int) -> Type:
        from pyebpf.types.arrays import array_of

        return array_of(self, length)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, IntType) and self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)


U8 = IntType("u8", "__u8", 1, signed=False)
U16 = IntType("u16", "__u16", 2, signed=False)
U32 = IntType("u32", "__u32", 4, signed=False)
U64 = IntType("u64", "__u64", 8, signed=False)
S8 = IntType("s8", "__s8", 1, signed=True)
S16 = IntType("s16", "__s16", 2, signed=True)
S32 = IntType("s32", "__s32", 4, signed=True)
S64 = IntType("s64", "__s64", 8, signed=True)
BE16 = IntType("be16", "__be16", 2, signed=False, big_endian=True)
BE32 = IntType("be32", "__be32", 4, signed=False, big_endian=True)
BE64 = IntType("be64", "__be64", 8, signed=False, big_endian=True)
BOOL = IntType("bool", "_Bool", 1, signed=False, is_bool=True)

#: Every integer type by its name.
INTEGERS = {t.name: t for t in (U8, U16, U32, U64, S8, S16, S32, S64, BE16, BE32, BE64, BOOL)}
