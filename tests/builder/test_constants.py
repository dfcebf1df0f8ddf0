"""Constants of a function under construction: one value each, in the first block."""

from __future__ import annotations

from pyebpf.builder.ssa.conditions import Compare
from pyebpf.compiler.ir import Condition, Op
from tests.builder.harness import Probe


def test_a_constant_is_made_once() -> None:
    """Equal ones are one value, found from any block and by its definition."""
    p = Probe()
    b = p.b
    word = b.load(p.context, 0, 8)
    with b.if_(Compare(Condition.NE, word, b.const(0))):
        first = b.const(-1)
        b.ret(first)
    second = b.const((1 << 64) - 1)
    definition = b.definition(second)
    b.ret(second)
    (function,) = p.finish().functions
    assert first is second
    assert definition is not None
    assert (definition.op, definition.imm) == (Op.CONST, -1)
    assert definition in function.blocks[0].instructions
    assert not [each for block in function.blocks[1:] for each in block.instructions if each.op is Op.CONST]


def test_constants_differ_by_every_operand() -> None:
    """Byte and slot are part of a slot's address."""
    b = Probe().b
    one, other = b.slot(16), b.slot(16)
    addresses = [b.slot_address(one), b.slot_address(one, 8), b.slot_address(other), b.slot_address(one)]
    assert len({address.number for address in addresses}) == 3


def test_a_contradiction_leaves_a_constant_what_it_is() -> None:
    """A branch that no run takes says nothing of a constant, which other code uses as well."""
    p = Probe()
    b = p.b
    word = b.load(p.context, 0, 1)
    with b.if_(Compare(Condition.SGT, word, b.const(300))):
        assert b.bounds(b.const(300)) == (300, 300)
        assert b.bounds(word) != (0, 255)
