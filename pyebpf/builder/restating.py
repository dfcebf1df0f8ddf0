"""Bounds said again, where verifiers may not know what is known here.

Verifiers follow sums, products, masks and shifts by constants; divisions and swapped bytes only since Linux 7.0, and
shifts by run-time counts no longer since 6.10. Passes drop a mask that says what every verifier knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.conditions import All, Compare
from pyebpf.compiler.ir import Condition as Relation, Op

if TYPE_CHECKING:
    from pyebpf.builder.conditions import Test
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

__all__ = ["masked", "restated", "restated_if_computed"]

_NOT_FOLLOWED = frozenset({Op.UDIV, Op.UMOD, Op.SDIV, Op.SMOD, Op.SWAP, Op.NEG, Op.CALL, Op.CALL_LOCAL, Op.CALL_KFUNC})
_SHIFTS = frozenset({Op.SHL, Op.LSHR, Op.ASHR})
_FOLLOWED = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.AND, Op.OR, Op.XOR, Op.REFINE})
#: How far back a value's computation is looked at.
_FARTHEST = 8


def restated(p: ProgramBuilder, number: ir.Value, low: int, high: int) -> ir.Value:
    """Return a number from `low` to `high`, as it is known to be, with these bounds where verifiers see them."""
    b = p.b
    if low == 0 and high & (high + 1) == 0:
        masked = b.binary(Op.AND, number, b.const(high))
        b.assume_bounds(masked, low, high)
        return masked
    inside: Test = Compare(Relation.ULT, number, b.const(high + 1))
    if low < 0:
        inside = All((Compare(Relation.SGE, number, b.const(low)), Compare(Relation.SLE, number, b.const(high))))
    found = b.variable(hint="inside")
    with b.if_(inside):
        b.write(found, b.emit(Op.REFINE, number))
    with b.else_():
        b.write(found, b.const(max(low, 0)))
    return b.take(found)


def restated_if_computed(p: ProgramBuilder, number: ir.Value) -> ir.Value:
    """Return a number with the bounds known here restated, if it was computed in a way that verifiers do not follow."""
    low, high = p.b.bounds(number)
    if high - low >= 1 << 62 or not _lost(p, number, _FARTHEST):
        return number
    return restated(p, number, low, high)


def masked(p: ProgramBuilder, number: ir.Value) -> ir.Value:
    """Return a number so that verifiers see some end of it, if one is known here: for loops, which need no more."""
    low, high = p.b.bounds(number)
    if low < 0 or p.b.definition(number) is not None or high >= 1 << 32:
        return restated_if_computed(p, number)
    # What several paths give: passes look whether verifiers follow each of them.
    return restated(p, number, 0, (1 << high.bit_length()) - 1)


def _lost(p: ProgramBuilder, value: ir.Value, steps: int) -> bool:
    definition = p.b.definition(value)
    if definition is None or steps == 0:
        return False
    if definition.op in _NOT_FOLLOWED:
        return True
    if definition.op in _SHIFTS:
        count = p.b.definition(definition.operands[1])
        if count is None or count.op is not Op.CONST:
            return True
        return _lost(p, definition.operands[0], steps - 1)
    return definition.op in _FOLLOWED and any(_lost(p, each, steps - 1) for each in definition.operands)
