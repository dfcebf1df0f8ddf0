"""Comparisons that nothing tests: the same 1 or 0, without a jump."""

from __future__ import annotations

import struct

import pytest

from pyebpf.compiler import ir
from pyebpf.compiler.checker import check_function
from pyebpf.compiler.ir import Condition, Op, Return, ValueType
from pyebpf.compiler.passes.truths import compute_truths
from tests.compiler.random_ir import INTERESTING
from tests.compiler.support import CONTEXT, MASK, Builder, run


def ops(function: ir.Function) -> list[Op]:
    return [instruction.op for block in function.blocks for instruction in block.instructions]


@pytest.mark.parametrize("condition", [each for each in Condition if each is not Condition.SET])
@pytest.mark.parametrize("second", [None, 0, 1, 200, 1 << 40])
def test_a_comparison_that_nothing_tests_takes_no_jump(condition: Condition, second: int | None) -> None:
    """Equality of any numbers, order of those whose top bit is clear. One that is tested keeps its comparison."""
    equality = condition in (Condition.EQ, Condition.NE)
    order = condition in (Condition.ULT, Condition.UGT, Condition.SLT, Condition.SGT)
    for size, tested, shift in ((1, False, 1), (8, False, 1), (8, True, 1), (1, False, 0)):
        b = Builder(slots=(ir.Slot("a", 8),))
        slot = b.emit(Op.SLOT, symbol="a", result=ValueType.POINTER)
        b.emit(Op.STORE, slot, b.const(0), size=8, result=None)
        x = b.emit(Op.LSHR, b.load(0), b.const(shift))
        y = b.emit(Op.LSHR, b.load(1), b.const(shift)) if second is None else b.const(second)
        truth = b.emit(Op.COMPARE, x, y, condition=condition)
        b.emit(Op.STORE, slot, truth, size=size, result=None)
        found = b.emit(Op.LOAD, slot, size=8)
        further = b.emit(Op.COMPARE, truth, b.const(1), condition=Condition.ULE) if tested else truth
        b.end(Return(b.emit(Op.ADD, found, further)))
        after = compute_truths(b.function())
        check_function(after)
        assert (Op.COMPARE not in ops(after)) == (not tested and (equality or (order and bool(shift))))
        for first in INTERESTING:
            for other in (0, 1, 200, 255, 1 << 40, (1 << 63) - 1, -1):
                context = struct.pack("<QQ", first & MASK, other & MASK).ljust(CONTEXT, b"\0")
                answers = [run(module, context) for module in (b.module(), ir.Module((after,)))]
                assert answers[0] == answers[1], (first, other)


def test_addresses_are_compared_by_jumps() -> None:
    """Verifiers learn from them what is not NULL, and let no number be made of an address."""
    b = Builder()
    is_null = b.emit(Op.COMPARE, ir.Value(0, ValueType.POINTER), b.const(0), condition=Condition.EQ)
    b.end(Return(is_null))
    assert compute_truths(b.function()) == b.function()
