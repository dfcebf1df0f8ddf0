"""Divisions by what is known at run time only: by 0 they give 1, and a warning, as bpftrace's do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate import arithmetic
from pyebpf.bpftrace.translate.values import Integer
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.compiler.ir import Condition as Relation

if TYPE_CHECKING:
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope

_BY_ZERO = "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result."


def divided(s: Scope, operator: str, left: Integer, right: Integer, node: ast.Node) -> Integer:
    """`left / right` or `left % right`."""
    from pyebpf.bpftrace.translate.checks import warn

    b = s.p.b
    answer = b.variable(hint="quotient")
    with b.if_(Compare(Relation.NE, right.value, b.const(0))):
        found = arithmetic.binary(s.p, operator, left, right)
        b.write(answer, found.value)
    with b.else_():
        b.write(answer, b.const(1))
        warn(s, node, _BY_ZERO)
    return Integer(b.read_final(answer), signed=found.signed, size=found.type.size)
