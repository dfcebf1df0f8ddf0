"""Text looked for in memory: the bytes go by a window as long as the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.arrays import element_lvalue
from pyebpf.builder.values.lvalue import movable
from pyebpf.compiler.ir import Condition as Relation, Op

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.builder.values.references import Reference
    from pyebpf.compiler import ir

#: Bytes of a number.
_WORD = 8


def find_bytes(p: ProgramBuilder, text: Reference, size: int, wanted: bytes) -> Test:
    """Whether `wanted`, which is not empty, stands anywhere in the first `size` bytes of `text`.

    An iteration for each byte: it enters the window at its end, whose numbers hold eight bytes each, and what it moves
    out of one enters the one before.
    """
    from pyebpf.builder.loops import range_loop

    b = p.b
    lvalue = movable(p, text.lvalue, size)
    words = [wanted[at : at + _WORD] for at in range(0, len(wanted), _WORD)]
    window = [b.variable(hint="window") for _ in words]
    absent = b.variable(hint="absent")
    for variable in window:
        b.write(variable, b.const(0))
    b.write(absent, b.const(1))
    with range_loop(p, 0, size, 1, [*window, absent]) as (_, index):
        address, offset = element_lvalue(p, text, lvalue, 1, size, index).address(p)
        byte = b.load(address, offset, 1)
        differs: ir.Value | None = None
        for variable, word in reversed(list(zip(window, words, strict=True))):
            held = b.read(variable)
            assert held is not None
            pushed = b.binary(Op.LSHR, held, b.const(8))
            pushed = b.binary(Op.OR, pushed, b.binary(Op.SHL, byte, b.const(8 * (len(word) - 1))))
            b.write(variable, pushed)
            difference = b.binary(Op.XOR, pushed, b.const(int.from_bytes(word, "little")))
            differs = difference if differs is None else b.binary(Op.OR, differs, difference)
            byte = b.binary(Op.AND, held, b.const(0xFF))
        assert differs is not None
        # No branch: verifiers would go on from each iteration as from one of its own. Of a number and its negative one
        # has the top bit, unless it is 0.
        either = b.binary(Op.LSHR, b.binary(Op.OR, differs, b.emit(Op.NEG, differs)), b.const(63))
        before = b.read(absent)
        assert before is not None
        b.write(absent, b.binary(Op.AND, before, either))
    for variable in window:
        b.forget(variable)
    return Compare(Relation.EQ, b.read_final(absent), b.const(0))
