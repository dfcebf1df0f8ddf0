"""`Reference`: what stands for a value in memory rather than holding it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import All, Always, Compare, Test, negate
from pyebpf.builder.values.entity import RunTimeValue
from pyebpf.builder.values.packet_bounds import inside
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.types import CharArray, StructType

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Self

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.lvalue import Lvalue
    from pyebpf.compiler import ir
    from pyebpf.types import Type

__all__ = ["Reference", "note_change"]


class Reference(RunTimeValue):
    """A value of `type` at `lvalue`. Names that share it are one value, as Python's; storing and emitting copies."""

    def __init__(self, type_: Any, lvalue: Lvalue) -> None:
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
        if not self.lvalue.writable:
            p.fail(f"{self.describe()} is only read: copy it to a record of its own first")

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
    """Note that what stands in memory as a `type_` is written over, if strings are in it."""
    if _holds_text(type_):
        p.found.strings_change = True


def _holds_text(type_: Type) -> bool:
    if isinstance(type_, StructType):
        return any(_holds_text(field.type) for field in type_.fields)
    return isinstance(type_, CharArray)
