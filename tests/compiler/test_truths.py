"""Comparisons that are only stored: the same 1 or 0, without a jump."""

from __future__ import annotations

import struct

import pytest

from pyebpf.compiler import ir
from pyebpf.compiler.checker import check_function
from pyebpf.compiler.ir import Condition, Op, Return, ValueType
from pyebpf.compiler.passes.truths import store_truths
from tests.compiler.random_ir import INTERESTING
from tests.compiler.support import CONTEXT, MASK, Builder, run


def ops(function: ir.Function) -> list[Op]:
    return [instruction.op for block in function.blocks for instruction in block.instructions]


@pytest.mark.parametrize("condition", [each for each in Condition if each is not Condition.SET])
@pytest.mark.parametrize("second", [None, 0, 1, 200, 1 << 40])
def test_a_comparison_that_is_stored_takes_no_jump(condition: Condition, second: int | None) -> None:
    """Of numbers whose top bit is clear. One that is tested or takes a register's bytes keeps its comparison."""
    without_jump = condition in (Condition.ULT, Condition.UGT, Condition.SLT, Condition.SGT)
    without_jump |= second == 0 and condition in (Condition.EQ, Condition.NE)
    for size, kept, shift in ((1, False, 1), (4, False, 1), (8, True, 1), (1, True, 1), (1, True, 0)):
        b = Builder(slots=(ir.Slot("a", 8),))
        slot = b.emit(Op.SLOT, symbol="a", result=ValueType.POINTER)
        b.emit(Op.STORE, slot, b.const(0), size=8, result=None)
        x = b.emit(Op.LSHR, b.load(0), b.const(shift))
        y = b.emit(Op.LSHR, b.load(1), b.const(shift)) if second is None else b.const(second)
        truth = b.emit(Op.COMPARE, x, y, condition=condition)
        b.emit(Op.STORE, slot, truth, size=size, result=None)
        found = b.emit(Op.LOAD, slot, size=8)
        b.end(Return(b.emit(Op.ADD, found, truth) if kept and size == 1 and shift else found))
        after = store_truths(b.function())
        check_function(after)
        assert (Op.COMPARE not in ops(after)) == (without_jump and not kept)
        for first in INTERESTING:
            for other in (0, 1, 200, 255, 1 << 40, (1 << 63) - 1, -1):
                context = struct.pack("<QQ", first & MASK, other & MASK).ljust(CONTEXT, b"\0")
                answers = [run(module, context) for module in (b.module(), ir.Module((after,)))]
                assert answers[0] == answers[1], (first, other)
