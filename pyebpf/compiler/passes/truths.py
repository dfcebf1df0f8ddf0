"""Comparisons whose 1 or 0 is only stored, computed without a jump.

Verifiers follow both ways of a jump, each with a byte of its own on the stack: a key of three booleans, eight times.
What is tested again keeps its jump, behind which they know which way it went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Condition, Op
from pyebpf.compiler.passes.patterns import BELOW
from pyebpf.compiler.passes.rewriting import EXCHANGED, Rewriter, rule, table

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Function, Value

#: Bytes of a spilled register: of fewer, verifiers keep no number.
_REGISTER = 8
_SIGN = 63
#: Conditions that mean "below" of two numbers whose top bit is clear.
_BELOW = frozenset({Condition.ULT, Condition.SLT})


def store_truths(function: Function) -> Function:
    """Compute comparisons of numbers below 2^63 that are only stored by shifting a difference's sign down."""
    stored = _only_stored(function)
    if not stored:
        return function

    def without_jump(r: Rewriter, x: Value, y: Value) -> Value | None:
        current = r.current
        if current.result is None or current.result.number not in stored:
            return None
        difference = _negative(r, current.condition, x, y)
        return None if difference is None else r.emit(Op.LSHR, difference, r.const(_SIGN))

    return Rewriter(function, table(rule(Op.COMPARE, (BELOW("x", _SIGN), BELOW("y", _SIGN)), without_jump))).run()


def _negative(r: Rewriter, condition: Condition | None, x: Value, y: Value) -> Value | None:
    """A number that is negative exactly where a comparison holds; None where it takes more than one operation."""
    if r.number(y) == 0 and condition is Condition.NE:
        return r.emit(Op.NEG, x)
    if r.number(y) == 0 and condition is Condition.EQ:
        return r.emit(Op.SUB, x, r.const(1))
    if condition in _BELOW:
        return r.emit(Op.SUB, x, y)
    return r.emit(Op.SUB, y, x) if condition is not None and EXCHANGED[condition] in _BELOW else None


def _only_stored(function: Function) -> set[int]:
    """Comparisons whose result nothing takes but stores of part of a register."""
    found = {
        each.result.number
        for block in function.blocks
        for each in block.instructions
        if each.op is Op.COMPARE and each.result is not None
    }
    if not found:
        return found
    taken: set[int] = set()
    for block in function.blocks:
        for each in block.instructions:
            is_part = each.op is Op.STORE and each.size < _REGISTER
            taken.update([value.number for value in (each.operands[:1] if is_part else each.operands)])
        taken.update([value.number for value in block.terminator.uses()])
    return found - taken
