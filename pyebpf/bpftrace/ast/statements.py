"""Blocks and statements. A block and an `if` are expressions, which may stand where a statement does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.ast.base import Expression, Node, Statement
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.bpftrace.ast.base import Type
    from pyebpf.bpftrace.ast.expressions import Map, MapAccess, TypeOf, Variable


@dataclass(frozen=True, slots=True, guarded=False)
class Block(Expression):
    """`{ … }`. `value` is a last expression that no semicolon follows: the value of a block that is an expression."""

    statements: tuple[Statement, ...]
    value: Expression | None = None

    @property
    def all_statements(self) -> tuple[Statement, ...]:
        """The statements, the last expression among them: the block where nobody wants its value."""
        if self.value is None:
            return self.statements
        return (*self.statements, ExpressionStatement(self.value.start, self.value.end, self.value))


@dataclass(frozen=True, slots=True, guarded=False)
class If(Expression):
    """`if (test) { … } else …`."""

    test: Expression
    then: Block
    otherwise: Block | If | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class ExpressionStatement(Statement):
    """An expression for its effect: a call, an increment, an `if`, a block."""

    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Assignment(Statement):
    """`target = value`, or one of the operators that combine: `+=`, `<<=` and so on."""

    operator: str
    target: Variable | Map | MapAccess
    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Discard(Statement):
    """`_ = value;`."""

    value: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class Let(Statement):
    """`let $name: type = value;`, where type and value may be missing."""

    variable: Variable
    type: Type | TypeOf | None = None
    value: Expression | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Range(Node):
    """`first..stop`, without `stop` itself."""

    first: Expression
    stop: Expression


@dataclass(frozen=True, slots=True, guarded=False)
class For(Statement):
    """`for ($variable : @map) { … }` or `for ($variable : 0..5) { … }`."""

    variable: Variable
    over: Map | Range
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class While(Statement):
    """`while (test) { … }`."""

    test: Expression
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class Unroll(Statement):
    """`unroll(count) { … }`."""

    count: Expression
    body: Block


@dataclass(frozen=True, slots=True, guarded=False)
class Break(Statement):
    """`break;`."""


@dataclass(frozen=True, slots=True, guarded=False)
class Continue(Statement):
    """`continue;`."""


@dataclass(frozen=True, slots=True, guarded=False)
class Return(Statement):
    """`return;` or `return value;`."""

    value: Expression | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Import(Statement):
    """`import "path";`, before the probes or in a block."""

    path: str
