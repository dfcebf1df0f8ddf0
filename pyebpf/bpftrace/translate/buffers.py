"""Buffers in memory of the program's own: compared, and given room for more bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.translate.values import Condition, Group, Special, Value, arranged, group_of
from pyebpf.bpftrace.value_types import Buffer, Record, Tuple
from pyebpf.builder.ssa.conditions import negate
from pyebpf.builder.values.arrays import equal_lvalues
from pyebpf.builder.values.lvalue import Lvalue, copy, zero

if TYPE_CHECKING:
    from pyebpf.bpftrace.value_types import ValueType
    from pyebpf.builder.program import ProgramBuilder

#: Bytes of the number of bytes that stands before them.
_LENGTH = 4


def _room(value: Value) -> int:
    assert isinstance(value.type, Buffer)
    return value.type.size


def are_buffers(left: Value, right: Value) -> bool:
    """Whether two values are buffers."""
    return isinstance(left.type, Buffer) and isinstance(right.type, Buffer)


def compare(p: ProgramBuilder, operator: str, left: Value, right: Value) -> Condition:
    """`==` and `!=`: the numbers of bytes and what both have room for, behind which there are zeros."""
    one: Any = left.operand(p)
    other: Any = right.operand(p)
    same = equal_lvalues(p, one.lvalue, other.lvalue, _LENGTH + min(_room(left), _room(right)))
    return Condition(same if operator == "==" else negate(same))


def fitted(p: ProgramBuilder, value: Value, type_: ValueType | None) -> Value:
    """A value as a type holds it: fields in its order, buffers with its room."""
    value = arranged(value, type_)
    if isinstance(type_, Buffer) and isinstance(value.type, Buffer):
        return with_room(p, value, type_)
    if isinstance(value, Group) and isinstance(type_, Tuple | Record):
        parts = [fitted(p, each, part) for each, part in zip(value.elements, type_.parts, strict=True)]
        return group_of(value.type, parts)
    return value


def with_room(p: ProgramBuilder, value: Value, type_: Buffer) -> Value:
    """A buffer with room for as many bytes as the type has."""
    if value.type == type_:
        return value
    given: Any = value.operand(p)
    slot = p.b.slot(-(-type_.storage.size // 8) * 8, name="buf")
    zero(p, p.b.slot_address(slot), 0, slot.size)
    source, start = given.lvalue.address(p)
    copy(p, p.b.slot_address(slot), 0, source, start, _LENGTH + _room(value))
    return Special(type_, p.load_value(Lvalue(slot=slot, owner="buf()", writable=False), type_.storage))
