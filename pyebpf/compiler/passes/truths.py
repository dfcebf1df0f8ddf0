"""Comparisons whose 1 or 0 is a number, not a way to go, computed without a jump.

Verifiers follow both ways of a jump, each with a number of its own: a key of three booleans, eight times. What is
tested again keeps its jump, behind which they know which way it went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Condition, Op, ValueType
from pyebpf.compiler.passes.patterns import ANY, BELOW
from pyebpf.compiler.passes.rewriting import EXCHANGED, Rewriter, rule, table

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Function, Value

_SIGN = 63
#: Conditions that mean "below" of two numbers whose top bit is clear.
_BELOW = frozenset({Condition.ULT, Condition.SLT})
_EQUALITY = frozenset({Condition.EQ, Condition.NE})


def compute_truths(function: Function) -> Function:
    """Compute comparisons of scalars that nothing tests: order by a difference's sign, equality by its bits."""
    untested = _untested(function)
    if not untested:
        return function

    def is_untested(r: Rewriter) -> bool:
        return r.current.result is not None and r.current.result.number in untested

    def below(r: Rewriter, x: Value, y: Value) -> Value | None:
        if not is_untested(r):
            return None
        difference = _negative(r, r.current.condition, x, y)
        return None if difference is None else r.emit(Op.LSHR, difference, r.const(_SIGN))

    def equal(r: Rewriter, x: Value, y: Value) -> Value | None:
        if not is_untested(r) or r.current.condition not in _EQUALITY or {x.type, y.type} != {ValueType.SCALAR}:
            return None
        bits = x if r.number(y) == 0 else r.emit(Op.XOR, x, y)
        differs = r.emit(Op.LSHR, r.emit(Op.OR, bits, r.emit(Op.NEG, bits)), r.const(_SIGN))
        return differs if r.current.condition is Condition.NE else r.emit(Op.XOR, differs, r.const(1))

    numbers = BELOW("x", _SIGN), BELOW("y", _SIGN)
    rules = table(rule(Op.COMPARE, numbers, below), rule(Op.COMPARE, (ANY("x"), ANY("y")), equal))
    return Rewriter(function, rules).run()


def _negative(r: Rewriter, condition: Condition | None, x: Value, y: Value) -> Value | None:
    """A number that is negative exactly where a comparison holds; None where it takes more than one operation."""
    if r.number(y) == 0 and condition is Condition.NE:
        return r.emit(Op.NEG, x)
    if r.number(y) == 0 and condition is Condition.EQ:
        return r.emit(Op.SUB, x, r.const(1))
    if condition in _BELOW:
        return r.emit(Op.SUB, x, y)
    return r.emit(Op.SUB, y, x) if condition is not None and EXCHANGED[condition] in _BELOW else None


def _untested(function: Function) -> set[int]:
    """Comparisons whose result no branch and no other comparison takes."""
    found: set[int] = set()
    tested: set[int] = set()
    for block in function.blocks:
        for each in block.instructions:
            if each.op is Op.COMPARE and each.result is not None:
                found.add(each.result.number)
                tested.update([value.number for value in each.operands])
        tested.update([value.number for value in block.terminator.uses()])
    return found - tested
