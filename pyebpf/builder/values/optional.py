"""Values that may be None: `OptionalInt`, from a look-up in a map of integers, and `Maybe`, None on some paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Always, Compare, Test, negate
from pyebpf.builder.values.entity import RunTimeValue
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.references import Reference
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.dataclass import replace
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, array
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import IntType


class OptionalInt(RunTimeValue):
    """A number, or None where `null_check` is NULL. Computing with it needs a check before."""

    REMEDY = "test it with `is None` first, or give get() a default: .get(k, 0)"

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

    def binary(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> object:
        return self.to_rvalue(p).binary(p, operator, other, reflected=reflected)

    def unary(self, p: ProgramBuilder, operator: str) -> object:
        return self.to_rvalue(p).unary(p, operator)

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        return self.to_rvalue(p).compare(p, operator, other, reflected=reflected)

    def convert(self, p: ProgramBuilder, type_: IntType) -> object:
        return self.to_rvalue(p).convert(p, type_)


class Nothing(RunTimeValue):
    """None in a run-time variable."""

    def describe(self) -> str:
        return "None"

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return ()

    @property
    def static_shape(self) -> Hashable:
        return "None"

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> Nothing:
        return self


class Maybe(RunTimeValue):
    """A value where `flag` is 1, None where it is 0: `best = None` before a loop, a helper that returns None.

    `source` is what messages call it.
    """

    def __init__(self, flag: ir.Value, inner: RunTimeValue, source: str) -> None:
        self.flag = flag
        self.inner = inner
        self.source = source

    def describe(self) -> str:
        return self.source

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return (self.flag, *self.inner.ssa_values)

    @property
    def static_shape(self) -> Hashable:
        return ("or None", self.inner.static_shape)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> Maybe:
        return Maybe(values[0], self.inner.with_ssa_values(values[1:]), self.source)

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        return self.inner.local(p) if p.b.is_non_null(self.flag) else self

    def to_rvalue(self, p: ProgramBuilder) -> RunTimeValue:
        """Return the value, where every path to here has found that there is one."""
        if not p.b.is_non_null(self.flag):
            p.fail(f"{self.source} may be None: test it with `is None` first")
        return self.inner

    def as_int(self, p: ProgramBuilder) -> Int | None:
        """Return the number, as `to_rvalue`; None if it is none."""
        inner = self.to_rvalue(p)
        return inner if isinstance(inner, Int) else None

    def is_none(self, p: ProgramBuilder) -> Test:
        if p.b.is_non_null(self.flag):
            return Always(holds=False)
        return Compare(Relation.EQ, self.flag, p.b.const(0), null_check=True)

    def truth(self, p: ProgramBuilder) -> Test:
        if not p.b.is_non_null(self.flag):
            p.fail(f"the truth of {self.source} cannot tell None from 0: write `is None` or `is not None`")
        return self.inner.truth(p)

    # -- all else is the value's ---------------------------------------------------------------------------------------

    def binary(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> object:
        return self.to_rvalue(p).binary(p, operator, other, reflected=reflected)

    def unary(self, p: ProgramBuilder, operator: str) -> object:
        return self.to_rvalue(p).unary(p, operator)

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        return self.to_rvalue(p).compare(p, operator, other, reflected=reflected)

    def convert(self, p: ProgramBuilder, type_: IntType) -> object:
        return self.to_rvalue(p).convert(p, type_)

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return self.to_rvalue(p).attribute(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        self.to_rvalue(p).set_attribute(p, name, value)

    def item(self, p: ProgramBuilder, index: object) -> object:
        return self.to_rvalue(p).item(p, index)

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> None:
        self.to_rvalue(p).set_item(p, index, value)

    def length(self, p: ProgramBuilder) -> object:
        return self.to_rvalue(p).length(p)

    def call(self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]) -> object:
        return self.to_rvalue(p).call(p, arguments, keywords)


def bare(value: RunTimeValue) -> RunTimeValue:
    """Return the value as it is where it is not None."""
    if isinstance(value, Maybe):
        return value.inner
    if isinstance(value, OptionalInt):
        return Int(value.value, value.type, value.loaded)
    if isinstance(value, Reference) and value.lvalue.null_check is not None:
        return type(value)(value.type, replace(value.lvalue, null_check=None))
    return value


def with_flag(p: ProgramBuilder, value: RunTimeValue, source: str) -> Maybe:
    """Return a value with a flag that tells whether it is there."""
    if isinstance(value, Maybe):
        return Maybe(value.flag, value.inner, source)
    missing: Test = Always(holds=False)
    if isinstance(value, OptionalInt) or (isinstance(value, Reference) and value.lvalue.null_check is not None):
        missing = value.is_none(p)
    if isinstance(missing, Always):
        flag = p.b.const(1)
        p.b.assume_non_null(flag)
    else:
        flag = p.b.truth_value(negate(missing))
    return Maybe(flag, bare(value), source)


def nothing_of(p: ProgramBuilder, prototype: RunTimeValue, source: str) -> Maybe:
    """Return None where another path gives a value like the prototype."""
    # Any address will do: where the flag is 0, nobody reads there. But in the body of a loop over a map verifiers have
    # forgotten the flag: they look whether as much could be read, and take an address of the stack for one that must
    # not be kept.
    size = prototype.type.size if isinstance(prototype, Reference) else 8
    parts = tuple(
        p.b.const(0) if part.type is ValueType.SCALAR else _any_address(p, size) for part in prototype.ssa_values
    )
    return Maybe(p.b.const(0), prototype.with_ssa_values(parts), source)


def _any_address(p: ProgramBuilder, size: int) -> ir.Value:
    words = -(-size // 8)
    name = f".none{words * 8}"
    p.maps[name] = MapSpec(name, MapType.ARRAY, U32, array(U64, words), 1)
    return p.b.emit(Op.MAP_VALUE, symbol=name)
