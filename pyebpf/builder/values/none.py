"""`int | None`: what a look-up in a map of integers finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import Always, Compare, Test
from pyebpf.builder.values.entity import RunTimeValue
from pyebpf.builder.values.integers import Int
from pyebpf.compiler.ir import Condition as Relation

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import IntType

__all__ = ["OptionalInt"]


class OptionalInt(RunTimeValue):
    """A number, or None where `null_check` is NULL. Computing with it needs a check before."""

    REMEDY = "test it with `is None` first, or give get() what stands in for it: .get(k, 0)"

    def __init__(
        self, null_check: ir.Value, value: ir.Value, type_: IntType, loaded: IntType | None, source: str
    ) -> None:
        self.null_check = null_check
        self.value = value
        self.type = type_
        self.loaded = loaded
        self.source = source

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return (self.null_check, self.value)

    @property
    def static_shape(self) -> Hashable:
        return ("int or None", self.type.name, self.loaded, self.source)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> OptionalInt:
        return OptionalInt(values[0], values[1], self.type, self.loaded, self.source)

    def describe(self) -> str:
        return self.source

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        """Where it was found not to be None, another name for it is a name for the number."""
        return self.to_rvalue(p) if p.b.is_non_null(self.null_check) else self

    def to_rvalue(self, p: ProgramBuilder) -> Int:
        """Return the number, where every path to here has found that there is one."""
        if not p.b.is_non_null(self.null_check):
            p.fail(f"{self.source} may be None: {self.REMEDY}")
        return Int(self.value, self.type, self.loaded)

    def as_int(self, p: ProgramBuilder) -> Int:
        """Return the number, as `to_rvalue`."""
        return self.to_rvalue(p)

    def is_none(self, p: ProgramBuilder) -> Test:
        if p.b.is_non_null(self.null_check):
            return Always(holds=False)
        return Compare(Relation.EQ, self.null_check, p.b.const(0), null_check=True)

    def truth(self, p: ProgramBuilder) -> Test:
        if not p.b.is_non_null(self.null_check):
            p.fail(f"the truth of {self.source} cannot tell None from 0: write `is None` or `is not None`")
        return self.to_rvalue(p).truth(p)

    def binary(self, p: ProgramBuilder, operator: str, other: Any, *, reflected: bool = False) -> Any:
        return self.to_rvalue(p).binary(p, operator, other, reflected=reflected)

    def unary(self, p: ProgramBuilder, operator: str) -> Any:
        return self.to_rvalue(p).unary(p, operator)

    def compare(self, p: ProgramBuilder, operator: str, other: Any, *, reflected: bool = False) -> Test:
        return self.to_rvalue(p).compare(p, operator, other, reflected=reflected)

    def convert(self, p: ProgramBuilder, type_: Any) -> Any:
        return self.to_rvalue(p).convert(p, type_)
