"""One type's bytes to its node: one function a kind, and the table of them."""

from __future__ import annotations

from struct import iter_unpack, unpack_from
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.btf.nodes import (
    Array,
    Const,
    DataSec,
    DeclTag,
    Enum,
    Enum64,
    Enumerator,
    Float,
    Func,
    FuncProto,
    Fwd,
    Int,
    Kind,
    Member,
    Node,
    Param,
    Ptr,
    Restrict,
    SectionVariable,
    Struct,
    Typedef,
    TypeTag,
    Union,
    Var,
    Volatile,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.btf.header import Content

INT_SIGNED, INT_CHAR, INT_BOOL = 1, 2, 4


class Raw(NamedTuple):
    """A type before decoding: `at` is where its bytes after struct btf_type begin; `value` is its size or type."""

    data: Content
    order: str
    at: int
    id: int
    name: str
    vlen: int
    flag: bool
    value: int
    string: Callable[[int], str]

    def words(self, layout: str) -> tuple[int, ...]:
        """The words after struct btf_type, as `layout` of the struct module."""
        return unpack_from(self.order + layout, self.data, self.at)

    def entries(self, layout: str, size: int) -> Iterator[tuple[int, ...]]:
        """The `vlen` entries of `size` bytes after struct btf_type."""
        return iter_unpack(self.order + layout, self.data[self.at : self.at + size * self.vlen])


def _int(raw: Raw) -> Int:
    (encoding,) = raw.words("I")
    flags = encoding >> 24 & 0xF
    return Int(
        raw.id,
        raw.name,
        raw.value,
        bits=encoding & 0xFF,
        bit_offset=encoding >> 16 & 0xFF,
        signed=bool(flags & INT_SIGNED),
        char=bool(flags & INT_CHAR),
        bool=bool(flags & INT_BOOL),
    )


def _array(raw: Raw) -> Array:
    return Array(raw.id, raw.name, *raw.words("III"))


def _members(raw: Raw) -> tuple[Member, ...]:
    string, flag = raw.string, raw.flag
    # With the kind flag an offset word is size << 24 | offset; without it a bit-field's size is its INT's.
    return tuple(
        Member(string(name), type_, offset & 0xFFFFFF, offset >> 24) if flag else Member(string(name), type_, offset, 0)
        for name, type_, offset in raw.entries("III", 12)
    )


def _enumerators(raw: Raw) -> tuple[Enumerator, ...]:
    layout = "Ii" if raw.flag else "II"
    return tuple(Enumerator(raw.string(name), value) for name, value in raw.entries(layout, 8))


def _enumerators64(raw: Raw) -> tuple[Enumerator, ...]:
    layout = "IIi" if raw.flag else "III"
    return tuple(Enumerator(raw.string(name), high << 32 | low) for name, low, high in raw.entries(layout, 12))


def _params(raw: Raw) -> tuple[Param, ...]:
    return tuple(Param(raw.string(name), type_) for name, type_ in raw.entries("II", 8))


def _variables(raw: Raw) -> tuple[SectionVariable, ...]:
    return tuple(SectionVariable(*entry) for entry in raw.entries("III", 12))


DECODERS: dict[int, Callable[[Raw], Node]] = {
    Kind.INT: _int,
    Kind.PTR: lambda raw: Ptr(raw.id, raw.name, raw.value),
    Kind.ARRAY: _array,
    Kind.STRUCT: lambda raw: Struct(raw.id, raw.name, raw.value, _members(raw)),
    Kind.UNION: lambda raw: Union(raw.id, raw.name, raw.value, _members(raw)),
    Kind.ENUM: lambda raw: Enum(raw.id, raw.name, raw.value, raw.flag, _enumerators(raw)),
    Kind.FWD: lambda raw: Fwd(raw.id, raw.name, raw.flag),
    Kind.TYPEDEF: lambda raw: Typedef(raw.id, raw.name, raw.value),
    Kind.VOLATILE: lambda raw: Volatile(raw.id, raw.name, raw.value),
    Kind.CONST: lambda raw: Const(raw.id, raw.name, raw.value),
    Kind.RESTRICT: lambda raw: Restrict(raw.id, raw.name, raw.value),
    Kind.FUNC: lambda raw: Func(raw.id, raw.name, raw.value, raw.vlen),
    Kind.FUNC_PROTO: lambda raw: FuncProto(raw.id, raw.name, raw.value, _params(raw)),
    Kind.VAR: lambda raw: Var(raw.id, raw.name, raw.value, *raw.words("I")),
    Kind.DATASEC: lambda raw: DataSec(raw.id, raw.name, raw.value, _variables(raw)),
    Kind.FLOAT: lambda raw: Float(raw.id, raw.name, raw.value),
    Kind.DECL_TAG: lambda raw: DeclTag(raw.id, raw.name, raw.value, *raw.words("i")),
    Kind.TYPE_TAG: lambda raw: TypeTag(raw.id, raw.name, raw.value),
    Kind.ENUM64: lambda raw: Enum64(raw.id, raw.name, raw.value, raw.flag, _enumerators64(raw)),
}
