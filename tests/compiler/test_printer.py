"""The text form of IR shows everything that its ops use, and nothing else."""

from __future__ import annotations

from pyebpf.compiler import ir
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return, ValueType
from pyebpf.compiler.printer import module_text
from tests.compiler.support import CTX, Builder

EXPECTED = """\
function main(%0.ctx: pointer)
  slot key 4 align 4
block 0:
  %1: scalar = load %0.ctx size 4 imm 16 signed  ; pid
  %2: pointer = slot key imm 2
  %3: scalar = const -7
  %4: scalar = compare %1, %3 s<
  store %2, %4 size 2
  %5: map = map counts
  %6: pointer = call %5, %2 imm 1
  branch %6 == %3 then 1 else 2
block 1:
  jump 3(%3)
block 2:
  %7: scalar = atomic %6, %4 size 8 xchg
  jump 3(%7)
block 3(%8: scalar):
  return %8"""


def test_text_of_a_function() -> None:
    """One function with every form of line."""
    b = Builder(slots=(ir.Slot("key", 4, 4),))
    number = b.emit(Op.LOAD, CTX, imm=16, size=4, signed=True, comment="pid")
    slot = b.emit(Op.SLOT, symbol="key", imm=2, result=ValueType.POINTER)
    minus = b.const(-7)
    less = b.emit(Op.COMPARE, number, minus, condition=Condition.SLT)
    b.emit(Op.STORE, slot, less, size=2, result=None)
    table = b.emit(Op.MAP, symbol="counts", result=ValueType.MAP)
    entry = b.emit(Op.CALL, table, slot, imm=1, result=ValueType.POINTER)
    b.end(Branch(Condition.EQ, entry, minus, 1, 2))
    b.end(Jump(3, (minus,)))
    old = b.emit(Op.ATOMIC, entry, less, symbol="xchg")
    b.end(Jump(3, (old,)))
    merged = b.value()
    b.end(Return(merged), [merged])
    assert module_text(b.module()) == EXPECTED
