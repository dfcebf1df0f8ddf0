"""Bounds said again, where verifiers may not know what is known here.

Verifiers follow sums, masks, and products and shifts by constants; `|`, `^` and `*` of two run-time numbers not in
Linux 6.1, divisions and swapped bytes only since 7.0, and shifts by run-time counts no longer since 6.10. Passes drop a
mask that says what every verifier knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import All, Compare
from pyebpf.builder.ssa.environment import S64_MAX, S64_MIN
from pyebpf.compiler.ir import FOLLOWED_WITH_CONSTANTS, Condition as Relation, Op

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.compiler import ir

_NOT_FOLLOWED = frozenset({Op.UDIV, Op.UMOD, Op.SDIV, Op.SMOD, Op.SWAP, Op.NEG, Op.CALL, Op.CALL_LOCAL, Op.CALL_KFUNC})
_SHIFTS = frozenset({Op.SHL, Op.LSHR, Op.ASHR})
_FOLLOWED = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.AND, Op.OR, Op.XOR, Op.REFINE})
#: Operations whose results' bounds verifiers compute of both bounds of the operands.
_KEEP_BOUNDS = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.REFINE})
#: Operations of a value's computation that are looked at.
_FARTHEST = 8
#: A constant from which on verifiers let nobody add it to an address (BPF_MAX_VAR_OFF).
_FAR = 1 << 29


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
    result = b.read_final(found)
    b.assume_bounds(result, low, high)
    return result


def is_index(p: ProgramBuilder, number: ir.Value, count: int) -> bool:
    """Whether a number is known to be one of the indices below `count`.

    Where what is known contradicts itself no run comes, and bounds mean nothing: there any number is one.
    """
    low, high = p.b.bounds(number)
    return (low >= 0 and high < count) or bool(p.b.environment.contradictions)


def element_offset(p: ProgramBuilder, index: ir.Value, count: int, size: int) -> ir.Value:
    """Where the element at an index below `count` (`is_index`) begins, with bounds that verifiers see."""
    b = p.b
    if not p.target.has("isa:may_goto") and _may_contradict(p, index, _FARTHEST):
        # Verifiers before Linux 6.8, which are older than may_goto, follow `4 < x` where x is at most 4, if the 4 is in
        # a register. There both bounds of x contradict; they forget an address that it is added to, and refuse it as a
        # number.
        number = b.emit(Op.FROM_BITS, index)
        b.assume_bounds(number, *b.bounds(index))
        index = number
    inside = restated(p, index, 0, count - 1)
    if size == 1 and count & (count - 1) and _far_sum(p, index, _FARTHEST):
        # Verifiers remember that a number is another one and a constant, whatever is found out about it later, and
        # refuse an address that it is added to for the size of the constant (since Linux commit 98d7ca374ba4 ("bpf:
        # Track delta between "linked" registers.") in v6.11). What is masked is a number of its own; so is a product.
        inside = b.binary(Op.AND, inside, b.const((1 << (count - 1).bit_length()) - 1))
    offset = b.binary(Op.MUL, inside, b.const(size))
    b.assume_bounds(offset, 0, size * (count - 1))
    return offset


def restated_if_computed(p: ProgramBuilder, number: ir.Value) -> ir.Value:
    """Return a number with the bounds known here restated, if it was computed in a way that verifiers do not follow."""
    low, high = p.b.bounds(number)
    if high - low >= 1 << 62 or not _lost(p, number, _FARTHEST):
        return number
    return restated(p, number, low, high)


def masked(p: ProgramBuilder, number: ir.Value) -> ir.Value:
    """Return a number so that verifiers see some end of it, if one is known here: for loops, which need no more."""
    low, high = p.b.bounds(number)
    if low < 0 or high >= 1 << 32 or not _of_several_paths(p, number, _FARTHEST):
        return restated_if_computed(p, number)
    # Passes look whether verifiers follow what each path gives.
    return restated(p, number, 0, (1 << high.bit_length()) - 1)


def _of_several_paths(p: ProgramBuilder, value: ir.Value, steps: int) -> bool:
    """Whether a number is what several paths give, or computed of such by what verifiers follow."""
    definition = p.b.definition(value)
    if definition is None or steps == 0:
        return definition is None
    followed = definition.op in _FOLLOWED or definition.op in _SHIFTS
    return followed and any(_of_several_paths(p, each, steps - 1) for each in definition.operands)


def _lost(p: ProgramBuilder, value: ir.Value, steps: int) -> bool:
    definition = p.b.definition(value)
    if definition is None or steps == 0:
        return False
    if definition.op in _NOT_FOLLOWED:
        return True
    if definition.op is Op.LOAD:  # from a table of constants, say
        low, high = p.b.environment.facts.bounds.get(value.number, (S64_MIN, S64_MAX))
        return high - low + 1 < 1 << 8 * definition.size
    if definition.op in _SHIFTS:
        if not _is_constant(p, definition.operands[1]):
            return True
        return _lost(p, definition.operands[0], steps - 1)
    if definition.op in FOLLOWED_WITH_CONSTANTS and not any(_is_constant(p, each) for each in definition.operands):
        return True
    if definition.op is Op.XOR and any(p.b.bounds(each)[0] < 0 for each in definition.operands):
        return True  # as abs() does it
    return definition.op in _FOLLOWED and any(_lost(p, each, steps - 1) for each in definition.operands)


def _is_constant(p: ProgramBuilder, value: ir.Value) -> bool:
    definition = p.b.definition(value)
    return definition is not None and definition.op is Op.CONST


def _may_contradict(p: ProgramBuilder, value: ir.Value, steps: int) -> bool:
    """Whether verifiers may have contradicting bounds of a number: one that was compared with another in a register.

    So may be what several paths give, once anything was compared so, and what is computed of such numbers.
    """
    if not p.b.compared:
        return False
    definition = p.b.definition(value)
    if value.number in p.b.compared or definition is None or steps == 0:
        return True
    if definition.op not in _KEEP_BOUNDS and definition.op not in _SHIFTS:
        return False
    return any(_may_contradict(p, each, steps - 1) for each in definition.operands)


def _far_sum(p: ProgramBuilder, value: ir.Value, steps: int) -> bool:
    """Whether a number may be another one and a large constant; what several paths give may always."""
    definition = p.b.definition(value)
    if definition is None or steps == 0:
        return True
    if definition.op is Op.REFINE:
        return _far_sum(p, definition.operands[0], steps - 1)
    if definition.op not in (Op.ADD, Op.SUB):
        return False
    low, high = p.b.bounds(definition.operands[1])
    return low <= -_FAR or high >= _FAR or _far_sum(p, definition.operands[0], steps - 1)
