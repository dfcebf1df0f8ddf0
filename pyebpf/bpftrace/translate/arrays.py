"""Arrays of numbers and of pointers: in memory of the program's own, indexed, compared, made of numbers and strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate.type_names import MAX_BYTES
from pyebpf.bpftrace.translate.values import (
    Condition,
    Elements,
    Embedded,
    Integer,
    Row,
    Text,
    Value,
    kernel_target,
    of_int,
    read_stored,
)
from pyebpf.bpftrace.value_types import Address, Array, Boolean, Characters, Number, ValueType, natural
from pyebpf.builder.ssa.conditions import Compare, negate
from pyebpf.builder.values.arrays import equal_lvalues
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_objects import CharacterArray, KernelArray, plain_integer
from pyebpf.builder.values.lvalue import Lvalue, copy, zero
from pyebpf.builder.values.memory import Space, probe_read
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.target import KernelType
from pyebpf.types import U64, ArrayType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Group
    from pyebpf.builder.program import ProgramBuilder


def element_type(type_: KernelType, space: Space) -> ValueType | None:
    """The type of what a C array consists of; None where a script keeps no such arrays: of structs, of floats."""
    if type_.boolean:
        return Boolean()
    integer = plain_integer(type_)
    if integer is not None:
        return Number(integer.signed, size=integer.size)
    if type_.kind == "pointer" and type_.element is not None:
        return Address(kernel_target(type_.element), space)
    if type_.kind == "array" and type_.element is not None and type_.length:
        if type_.element.character:
            return Characters(type_.length)
        inner = element_type(type_.element, space)
        return None if inner is None else Array(inner, type_.length)
    return None


def c_type(array: KernelArray) -> KernelType:
    """The type of a C array whose length is known."""
    length = array.array_length or 0
    return KernelType("array", length * array.element.size, element=array.element, length=length)


def row_of(s: Scope, value: Value, node: ast.Node) -> Row | None:
    """An array that stands elsewhere, copied to where the program keeps it; None for one that is not kept."""
    p = s.p
    if isinstance(value, Row):
        return value
    if isinstance(value, Embedded) and isinstance(value.entity, KernelArray):
        array = value.entity
        inner = element_type(array.element, array.space)
        if inner is None or not array.array_length:
            return None
        row = _room(s, Array(inner, array.array_length), node)
        probe_read(p, array.space, row.lvalue.exact(p), row.type.storage.size, value.address(p))
        return row
    if isinstance(value, Elements):
        found = value.entity.type
        element = found.element if isinstance(found, ArrayType) else None
        if element is not None and not hasattr(element, "signed"):
            return None
        inner = Number(bool(getattr(element, "signed", False)), size=1 if element is None else element.size)
        row = _room(s, Array(inner, found.length), node)
        copy(p, *row.lvalue.address(p), *value.entity.lvalue.address(p), found.size)
        return row
    return None


def of_groups(s: Scope, groups: Sequence[Group], node: ast.Node) -> Row:
    """An array of records of one type."""
    p, type_ = s.p, groups[0].type
    row = _room(s, Array(type_, len(groups)), node)
    for number, each in enumerate(groups):
        base, offset = row.lvalue.at(number * type_.storage.size).address(p)
        p.store_value(base, offset, type_.storage, each.operand(p))
    return row


def _room(s: Scope, type_: Array, node: ast.Node) -> Row:
    """Memory for an array, all zeros."""
    size = type_.storage.size
    if size > MAX_BYTES:
        raise s.error(f"this array has {size} bytes, and scripts keep at most {MAX_BYTES}: read an element", node)
    slot = s.p.b.slot(-(-size // 8) * 8, name="array")
    zero(s.p, s.p.b.slot_address(slot), 0, slot.size)
    return Row(type_, Lvalue(slot=slot, owner="an array", writable=False))


def element(s: Scope, row: Row, index: Integer, node: ast.Node) -> Value:
    """An element; where the index is known at run time only, one that lies outside is 0."""
    p, type_ = s.p, row.type
    inner, size = type_.element, natural(type_.element).size
    if index.literal is not None:
        if not 0 <= index.literal < type_.length:
            raise s.error(f"index {index.literal} lies outside the array of {type_.length}", node)
        return _read(p, inner, row.lvalue.at(index.literal * size))
    slot = p.b.slot(-(-size // 8) * 8, name="element")
    zero(p, p.b.slot_address(slot), 0, slot.size)
    with p.b.if_(Compare(Relation.ULT, index.value, p.b.const(type_.length))):
        known = p.b.emit(Op.REFINE, index.value)
        p.b.assume_bounds(known, 0, type_.length - 1)
        distance = p.b.binary(Op.MUL, known, p.b.const(size))
        p.b.assume_bounds(distance, 0, (type_.length - 1) * size)
        base = p.b.emit(Op.OFFSET, row.lvalue.exact(p), distance)
        p.b.assume_non_null(base)
        copy(p, p.b.slot_address(slot), 0, base, 0, size, widest=min(size & -size, 8))
    return _read(p, inner, Lvalue(slot=slot, owner="an element", writable=False))


def _read(p: ProgramBuilder, type_: ValueType, lvalue: Lvalue) -> Value:
    if isinstance(type_, Number):
        found = p.load_value(lvalue, natural(type_))
        assert isinstance(found, Int)
        return of_int(found)
    return read_stored(p, type_, lvalue)


def compare(s: Scope, operator: str, left: Row, right: Row, node: ast.Node) -> Condition:
    """`==` and `!=` of two arrays of one type."""
    if natural(left.type) != natural(right.type) or operator not in ("==", "!="):
        raise s.error("arrays are compared with arrays of the same type and length, by == and !=", node)
    test = equal_lvalues(s.p, left.lvalue, right.lvalue, left.type.storage.size)
    return Condition(test if operator == "==" else negate(test))


def bytes_of(s: Scope, value: Value, node: ast.Node) -> Value:
    """The array of bytes that an array of characters is; any other value as it is."""
    if not isinstance(value, Text) or not isinstance(value.source, CharacterArray) or not value.source.array_length:
        return value
    row = _room(s, Array(Number(signed=True, size=1), value.room), node)
    value.copy_bytes(s.p, *row.lvalue.address(s.p), value.room)
    return row


def as_array(s: Scope, value: Value, element_: ValueType, length: int | None, node: ast.Node) -> Row:
    """`(type[n])value`: the bytes of a number, of a string or of another array; without n as many as there are."""
    p, size = s.p, natural(element_).size
    row = row_of(s, value, node)
    if row is not None:
        given = row.type.storage.size
    elif isinstance(value, Text):
        given = value.room
    elif isinstance(value, Integer):
        literal = value.literal is not None and value.type.size == U64.size
        given = value.type.size
        if literal and length is None:
            given = max(value.type.least or given, size)
        elif literal and length is not None and length * size <= U64.size:
            given = length * size
    else:
        raise s.error(f"this is {value.type.name}, of which no array is made", node)
    count = given // size if length is None else length
    if count * size != given or not count:
        raise s.error(f"the array has {(length or 0) * size} bytes, and the value {given}: cast it to that size", node)
    type_ = Array(element_, count)
    if row is not None:
        return Row(type_, row.lvalue)
    made = _room(s, type_, node)
    if isinstance(value, Text):
        value.copy_bytes(p, *made.lvalue.address(p), given)
    else:
        assert isinstance(value, Integer)
        # Of a number of 3 bytes, and the like, all are written: the slot has room, and nobody reads what is behind it.
        p.b.store(*made.lvalue.address(p), value.value, given if given in (1, 2, 4) else U64.size)
    return made


def of_bytes(s: Scope, data: bytes, node: ast.Node) -> Row:
    """An array of bytes that are known."""
    made = _room(s, Array(Number(signed=False, size=1), len(data)), node)
    address, offset = made.lvalue.address(s.p)
    for at, byte in enumerate(data):
        s.p.b.store(address, offset + at, s.p.b.const(byte), 1)
    return made


def as_number(s: Scope, row: Row, size: int, node: ast.Node) -> Integer:
    """`(type)array`: the number that its bytes are in this machine's order."""
    if row.type.storage.size != size:
        raise s.error(f"the array has {row.type.storage.size} bytes, and the type {size}", node)
    return Integer(s.p.b.load(*row.lvalue.address(s.p), size), signed=False, size=size)
