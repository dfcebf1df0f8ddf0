"""Values in memory as entities: numbers are read at once, records, strings and arrays are references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.compiler.ir import Op
from pyebpf.types import S64, U64, ArrayType, BytesType, CharArray, IntType, PointerType, StructType, TupleType
from pyebpf.types.special import SpecialType

if TYPE_CHECKING:
    from pyebpf.builder.integers import Int
    from pyebpf.builder.places import Place
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type

__all__ = ["read", "read_int"]


def read(p: ProgramBuilder, place: Place, type_: Type) -> Any:
    """Return the value of `type_` at `place`."""
    if isinstance(type_, IntType):
        return read_int(p, *place.address(p), type_)
    if isinstance(type_, PointerType):
        from pyebpf.builder.pointers import Pointer

        address, offset = place.address(p)
        return Pointer(p.b.load(address, offset, 8), type_.target, place.space)
    if isinstance(type_, TupleType):
        from pyebpf.builder.tuples import TupleReference

        return TupleReference(type_, place)
    if isinstance(type_, StructType):
        from pyebpf.builder.records import Record

        return Record(type_, place)
    if isinstance(type_, CharArray):
        from pyebpf.builder.strings import ForeignString, String

        return (ForeignString if place.foreign else String)(type_, place)
    if isinstance(type_, SpecialType):
        from pyebpf.builder.special import special_member

        return special_member(p, type_, place)
    if not isinstance(type_, ArrayType | BytesType):
        p.fail(f"{type_.name} is for user space: a probe sees no fields in it, so declare a Struct to read it here")
    from pyebpf.builder.arrays import Array

    return Array(type_, place)


def read_int(p: ProgramBuilder, address: ir.Value, offset: int, type_: IntType) -> Int:
    """Load an integer as s64, or as u64 where it takes all of the 64 bits."""
    from pyebpf.builder.integers import Int

    value = p.b.load(address, offset, type_.size, signed=type_.signed)
    if type_.big_endian:
        value = p.b.emit(Op.SWAP, value, size=type_.size)
    if type_.size < U64.size:
        p.b.assume_bounds(value, type_.minimum, type_.maximum)
    if type_.size == U64.size:
        return Int(value, S64 if type_.signed else U64)
    return Int(value, S64, type_)
