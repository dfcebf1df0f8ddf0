"""Arrays: `char[N]` (a string), `u8[N]` (bytes), and arrays of anything else (a list)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.types.base import Type
from pyebpf.types.integers import U8

if TYPE_CHECKING:
    from collections.abc import Iterator

    from construct import Construct

#: Longer ones could never stand in a map value or on the stack.
MAX_LENGTH = 1 << 20


def _check_length(name: str, length: object) -> int:
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length <= MAX_LENGTH:
        msg = f"{name}[{length!r}] is not an array type: the length is an integer from 1 to {MAX_LENGTH}"
        raise InvalidValue(msg)
    return length


class CharArray(Type):
    """`char[N]`.

    A string of at most N-1 bytes, a NUL, and zeros to the end. A `str` in Python (UTF-8, surrogateescape).
    """

    def __init__(self, length: int) -> None:
        self.length = self.size = _check_length("char", length)
        self.align = 1
        self.name = f"char[{length}]"
        self.c_name = f"char [{length}]"
        self.format = f"{length}s"

    def assemble(self, plain: Iterator[Any]) -> str:
        raw: bytes = next(plain)
        return raw.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def scatter(self, value: object) -> list[bytes]:
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if not isinstance(raw, bytes):
            msg = f"{value!r} does not fit {self.name}: give a str or bytes"
            raise InvalidValue(msg)
        if len(raw) >= self.length or b"\0" in raw:
            msg = f"{value!r} does not fit {self.name}: at most {self.length - 1} bytes, none of them NUL"
            raise InvalidValue(msg)
        return [raw]

    @cached_property
    def construct(self) -> Construct:
        import construct

        # construct's PaddedString knows no error handler, which names from the kernel need.
        return construct.ExprAdapter(
            construct.Bytes(self.length),
            lambda raw, _: self.assemble(iter((raw,))),
            lambda value, _: self.scatter(value)[0].ljust(self.length, b"\0"),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharArray) and type(other) is type(self) and self.length == other.length

    def __hash__(self) -> int:
        return hash(self.name)


class ForeignCharArray(CharArray):
    """`char[N]` of a program that is not pyebpf's: no NUL need end it, and anything may stand behind one.

    A `str` of all bytes but the zeros at the end, so that no two are alike and each can be written back.
    """

    def assemble(self, plain: Iterator[Any]) -> str:
        raw: bytes = next(plain)
        return raw.rstrip(b"\0").decode("utf-8", "surrogateescape")

    def scatter(self, value: object) -> list[bytes]:
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if not isinstance(raw, bytes):
            raise InvalidValue(f"{value!r} does not fit {self.name}: give a str or bytes")
        if len(raw) > self.length:
            raise InvalidValue(f"{value!r} does not fit {self.name}: at most {self.length} bytes")
        return [raw]

    __eq__ = CharArray.__eq__
    __hash__ = CharArray.__hash__


class BytesType(Type):
    """`u8[N]`: N bytes as they are."""

    element: Type = U8

    def __init__(self, length: int) -> None:
        self.length = self.size = _check_length("u8", length)
        self.align = 1
        self.name = f"u8[{length}]"
        self.c_name = f"__u8 [{length}]"
        self.format = f"{length}s"

    def assemble(self, plain: Iterator[Any]) -> bytes:
        return bytes(next(plain))

    def scatter(self, value: object) -> list[object]:
        if not isinstance(value, (bytes, bytearray, memoryview)) or len(value) != self.length:
            msg = f"{value!r} does not fit {self.name}: give exactly {self.length} bytes"
            raise InvalidValue(msg)
        return [bytes(value)]

    @cached_property
    def construct(self) -> Construct:
        import construct

        return construct.Bytes(self.length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BytesType) and self.length == other.length

    def __hash__(self) -> int:
        return hash(self.name)


class ArrayType(Type):
    """N elements of one type; a list in Python, where it is (a part of) a key a tuple."""

    def __init__(self, element: Type, length: int) -> None:
        self.element = element
        self.length = _check_length(element.name, length)
        self.size = element.size * length
        self.align = element.align
        self.name = f"{element.name}[{length}]"
        self.c_name = f"{element.c_name} [{length}]"
        self.format = element.format * length
        self.count = element.count * length

    def assemble(self, plain: Iterator[object]) -> object:
        return [self.element.assemble(plain) for _ in range(self.length)]

    def as_key(self) -> Type:
        return ArrayKeyType(self.element.as_key(), self.length)

    def scatter(self, value: object) -> list[object]:
        if not isinstance(value, (list, tuple)) or len(value) != self.length:
            msg = f"{value!r} does not fit {self.name}: give a list of {self.length}"
            raise InvalidValue(msg)
        return [plain for item in value for plain in self.element.scatter(item)]

    @cached_property
    def construct(self) -> Construct:
        import construct

        return construct.Array(self.length, self.element.construct)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayType) and (self.element, self.length) == (other.element, other.length)

    def __hash__(self) -> int:
        return hash(self.name)


class ArrayKeyType(ArrayType):
    """An array that decodes to a tuple, which a dictionary takes as a key."""

    def assemble(self, plain: Iterator[object]) -> object:
        return tuple(self.element.assemble(plain) for _ in range(self.length))

    def as_key(self) -> Type:
        return self


def array_of(element: Type, length: int) -> Type:
    """Return the array type of `length` elements: bytes for `u8`, a list for anything else."""
    return BytesType(length) if element == U8 else ArrayType(element, length)


class CharFactory:
    """`char`: written `char[N]` for a string, `ptr[char]` for a C string's address. One equals another."""

    name = "char"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharFactory)

    def __hash__(self) -> int:
        return hash(CharFactory)

    def __getitem__(self, length: int) -> CharArray:
        return CharArray(length)

    def __repr__(self) -> str:
        return "char"
