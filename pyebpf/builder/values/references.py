"""`Reference`: what stands for a value in memory rather than holding it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import All, Always, Compare, Test, negate
from pyebpf.builder.values.entity import RunTimeValue
from pyebpf.builder.values.lvalue import COPY, Lvalue, zero
from pyebpf.builder.values.packet_bounds import inside
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.dataclass import replace
from pyebpf.types import ArrayType, BytesType, CharArray, StructType, TupleType

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from typing import Self

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type


class Reference(RunTimeValue):
    """A value of `type` at `lvalue`. Names that share it are one value, as Python's; storing and emitting copies."""

    def __init__(self, type_: Type, lvalue: Lvalue) -> None:
        self.type = type_
        self.lvalue = lvalue

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return self.lvalue.ssa_values

    @property
    def static_shape(self) -> Hashable:
        return ("reference", self.type, self.lvalue.static_shape)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> Self:
        return type(self)(self.type, self.lvalue.with_ssa_values(values))

    def describe(self) -> str:
        owner = f" of {self.lvalue.owner}" if self.lvalue.owner else ""
        return f"the {self.type.name}{owner}"

    def stands_ready(self, type_: Type) -> bool:
        """Whether it stands on the stack as what a helper is given for a `type_`."""
        return self.lvalue.slot is not None and self.type == type_ and not self.lvalue.untrusted

    def is_shared(self, p: ProgramBuilder) -> bool:
        # Under a lock nobody else writes.
        return self.lvalue.shared and not p.b.no_calls

    def check(self, p: ProgramBuilder) -> None:
        """Refuse a use where it may be None or gone."""
        self.lvalue.check(p, self.describe())

    def check_writable(self, p: ProgramBuilder) -> None:
        """Refuse a write where it may be None or gone, or to memory that is only read."""
        self.check(p)
        if self.lvalue.base is not None and p.b.origin(self.lvalue.base) == COPY:
            p.fail(
                f"{self.describe()} is a copy here, since its index is known at run time only: assign a whole element, "
                f"array[i] = {self.type.name}(...), or index by a constant"
            )
        if not self.lvalue.writable:
            p.fail(f"{self.describe()} is read-only: copy it to a record of its own first")

    def note_written(self, p: ProgramBuilder) -> None:
        """Note that it was written: what was copied from there is not the same any more."""
        if self.lvalue.fixed:
            p.b.invalidate_origin(COPY, "a write to what it was copied from")

    def is_none(self, p: ProgramBuilder) -> Test:
        null_check = self.lvalue.null_check
        if null_check is None:
            p.fail(f"{self.describe()} is never None")
        if p.b.is_non_null(null_check):
            return Always(holds=False)
        if self.lvalue.packet:
            self.lvalue.check_valid(p, self.describe())
            there = inside(p, null_check, self.type.size, self.lvalue.packet)
            if self.lvalue.reach is not None:
                near = Compare(Relation.ULE, self.lvalue.reach, p.b.const(self.lvalue.farthest))
                there = All((near, there))
            return negate(there)
        return Compare(Relation.EQ, null_check, p.b.const(0), null_check=True)

    def truth(self, p: ProgramBuilder) -> Test:
        if self.lvalue.null_check is not None:
            p.fail(f"the truth of {self.describe()} may mean None: write `is None` or `is not None`")
        p.fail(f"{self.describe()} is neither true nor false: compare one of its fields")


def note_change(p: ProgramBuilder, type_: Type) -> None:
    """Note that what stands in memory as a `type_` is written over, if there are values in it that a name keeps."""
    p.written.update(_kept(type_))
    p.found.changed = frozenset(p.written & p.kept)


def is_overwritten(p: ProgramBuilder, lvalue: Lvalue, kind: type[Type]) -> bool:
    """Whether the program may write over what stands there: a value that Python cannot change is copied for a name."""
    if not lvalue.writable:
        return False
    p.kept.add(kind)
    p.found.changed = frozenset(p.written & p.kept)
    return kind in p.known.changed


def copied(p: ProgramBuilder, value: Reference, kind: type[Reference]) -> RunTimeValue:
    """Copy a value to the stack, if it is there, and return the copy as a `kind`: what may be None still may."""
    slot = p.b.slot(-(-value.type.size // 8) * 8, name="copy")
    address = p.b.slot_address(slot)
    place = Lvalue(slot=slot, owner=value.lvalue.owner, writable=False)
    if not value.lvalue.may_be_null(p):
        p.store_value(address, 0, value.type, value)
        return kind(value.type, place)
    flag = None
    if value.lvalue.packet:
        # Its address tells nothing: the test is where it ends.
        flag = p.b.truth_value(negate(value.is_none(p)))
        zero(p, address, 0, slot.size)
    with p.b.if_(negate(value.is_none(p))):
        p.store_value(address, 0, value.type, value)
    with p.b.else_():
        pass  # what is known behind it is known on both paths
    if flag is None:
        return kind(value.type, replace(place, null_check=value.lvalue.null_check))
    from pyebpf.builder.values.optional import Maybe  # it knows references

    return Maybe(flag, kind(value.type, place), value.describe())


def _kept(type_: Type) -> Iterator[type[Type]]:
    """Types of the values in a `type_` that a name keeps."""
    match type_:
        case CharArray():
            yield CharArray
        case BytesType():
            yield BytesType
        case ArrayType(element=element):
            yield from _kept(element)
        case StructType(fields=fields) | TupleType(fields=fields):
            if isinstance(type_, TupleType):
                yield TupleType
            for field in fields:
                yield from _kept(field.type)
