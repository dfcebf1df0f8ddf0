"""Values in memory as entities: numbers are read at once, records, strings and arrays are references."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.arrays import Array, Bytes
from pyebpf.builder.values.integers import read_int
from pyebpf.builder.values.pointers import Pointer
from pyebpf.builder.values.records import Record
from pyebpf.builder.values.strings import String, UntrustedString
from pyebpf.builder.values.tuples import TupleReference
from pyebpf.types import ArrayType, BytesType, CharArray, IntType, PointerType, StructType, TupleType
from pyebpf.types.special import SpecialType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entity import Entity
    from pyebpf.builder.values.lvalue import Lvalue
    from pyebpf.builder.values.special import SpecialField
    from pyebpf.types import Type


def read(p: ProgramBuilder, lvalue: Lvalue, type_: Type, *, part: bool = False) -> Entity:
    """Return the value of `type_` at `lvalue`; `part` says that it is in a record, a tuple, an array."""
    if isinstance(type_, IntType):
        return read_int(p, *lvalue.address(p), type_)
    if isinstance(type_, PointerType):
        address, offset = lvalue.address(p)
        return Pointer(p.b.load(address, offset, 8), type_.target, lvalue.space)
    if isinstance(type_, TupleType):
        return TupleReference(type_, lvalue)
    if isinstance(type_, StructType):
        return Record(type_, lvalue)
    if isinstance(type_, CharArray):
        return (UntrustedString if lvalue.untrusted else String)(type_, lvalue)
    if isinstance(type_, SpecialType):
        return _special(p, type_, lvalue)
    if not isinstance(type_, (ArrayType, BytesType)):
        p.fail(f"{type_.name} is for user space: a probe sees no fields in it, so declare a Struct to read it here")
    return (Bytes if part and isinstance(type_, BytesType) else Array)(type_, lvalue)


def _special(p: ProgramBuilder, type_: SpecialType, lvalue: Lvalue) -> SpecialField:
    # Few programs have such a member.
    from pyebpf.builder.intrinsics.timers import Timer
    from pyebpf.builder.values.special import SpinLock

    made = {"bpf_spin_lock": SpinLock, "bpf_timer": Timer}.get(type_.tag)
    if made is None:
        p.fail(f"struct {type_.tag} is not supported in probes yet")
    return made(type_, lvalue)
