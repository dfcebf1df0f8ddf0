"""Algebra by itself: what `simplify` leaves of small functions, before other passes make up for anything."""

from __future__ import annotations

import pytest

from pyebpf.compiler import ir
from pyebpf.compiler.ir import Branch, Condition, Op, Return
from pyebpf.compiler.passes.algebra import simplify
from tests.compiler.support import Builder, contexts, run


def computed(function: ir.Function) -> list[Op]:
    """The operations that are left, without constants."""
    instructions = [i for block in function.blocks for i in block.instructions]
    return [i.op for i in instructions if i.op is not Op.CONST]


@pytest.mark.parametrize(("inner", "outer", "left"), [(2, 4, 1), (4, 4, 1), (4, 2, 2)])
def test_an_extension_of_a_narrower_or_equal_one_is_nothing(inner: int, outer: int, left: int) -> None:
    """Of a wider one it is an extension of what that one extended."""
    b = Builder()
    b.end(Return(b.emit(Op.SEXT, b.emit(Op.SEXT, b.load(0), size=inner), size=outer)))
    assert computed(simplify(b.function())) == [Op.LOAD, *[Op.SEXT] * left]


@pytest.mark.parametrize(
    ("shift", "condition", "constant", "known"),
    [
        (1, Condition.SGE, 0, 1),
        (1, Condition.SLT, -5, 0),
        (1, Condition.ULT, 1 << 63, 1),
        (1, Condition.SLT, 5, None),
        (0, Condition.SGE, 0, None),
        (0, Condition.SGT, -1, None),
    ],
)
def test_a_number_of_63_bits_is_not_negative(
    shift: int, condition: Condition, constant: int, known: int | None
) -> None:
    """A comparison that this decides is a constant; of 64 bits it decides none."""
    b = Builder()
    word = b.load(0)
    shifted = b.emit(Op.LSHR, word, b.const(shift)) if shift else word
    b.end(Return(b.emit(Op.COMPARE, shifted, b.const(constant), condition=condition)))
    after = simplify(b.function())
    returned = after.blocks[0].terminator
    assert isinstance(returned, Return)
    numbers = {i.result: i.imm for i in after.blocks[0].instructions if i.op is Op.CONST}
    assert numbers.get(returned.value) == known


@pytest.mark.parametrize("op", [Op.SHL, Op.LSHR])
@pytest.mark.parametrize(("first", "second", "left"), [(31, 32, 1), (32, 32, 0), (63, 1, 0), (63, 63, 0), (65, 64, 1)])
def test_shifts_in_a_row_add_up_until_nothing_is_left(op: Op, first: int, second: int, left: int) -> None:
    """Of 64 bits none is left when 64 are shifted out: then it is 0, and no shift by 64, which is one by 0."""
    b = Builder()
    b.end(Return(b.emit(op, b.emit(op, b.load(0), b.const(first)), b.const(second))))
    after = simplify(b.function())
    returned = after.blocks[0].terminator
    assert isinstance(returned, Return)
    (definition,) = (i for i in after.blocks[0].instructions if i.result == returned.value)
    assert definition.op is (op if left else Op.CONST)


@pytest.mark.parametrize(("mask", "stays"), [(0x7F, False), (0xFE, False), (0x1FE, True), (0xFFFE, True)])
def test_a_truncation_goes_if_nothing_is_beyond_it(mask: int, stays: bool) -> None:
    """One bit more than the width is enough for it to stay."""
    b = Builder()
    b.end(Return(b.emit(Op.ZEXT, b.emit(Op.AND, b.load(0), b.const(mask)), size=1)))
    assert (Op.ZEXT in computed(simplify(b.function()))) == stays


@pytest.mark.parametrize("condition", [Condition.EQ, Condition.NE, Condition.ULT, Condition.SGT])
def test_a_branch_on_a_comparison_and_any_number(condition: Condition) -> None:
    """Only against 0 or 1 it is a branch on what was compared; other numbers its one bit never is."""
    for number in (0, 1, 2, 3, -1, None):
        b = Builder()
        less = b.emit(Op.COMPARE, b.load(0), b.load(1), condition=Condition.ULT)
        b.end(Branch(condition, less, b.load(2) if number is None else b.const(number), 1, 2))
        b.end(Return(b.const(1)))
        b.end(Return(b.const(2)))
        after = simplify(b.function())
        for words in ((1, 2, 0), (1, 2, 1), (2, 1, 0), (2, 1, 1), (2, 1, 7)):
            context = b"".join(word.to_bytes(8, "little") for word in words) + contexts(0)[24:]
            assert run(ir.Module((after,)), context) == run(b.module(), context), (number, words)


@pytest.mark.parametrize(
    ("op", "constant", "followed"),
    [(Op.LSHR, 62, True), (Op.UMOD, 3, False), (Op.UDIV, 1 << 62 | 1, False)],
)
def test_a_mask_is_left_out_only_where_verifiers_know_as_much(op: Op, constant: int, followed: bool) -> None:
    """They follow shifts by constants and masks, no division."""
    b = Builder()
    small = b.emit(op, b.load(0), b.const(constant))
    b.end(Return(b.emit(Op.AND, small, b.const(3))))
    assert computed(simplify(b.function())) == [Op.LOAD, op, *[Op.AND] * (not followed)]


@pytest.mark.parametrize("op", [Op.OR, Op.XOR, Op.MUL])
def test_a_mask_of_what_two_numbers_make_is_kept(op: Op) -> None:
    """Linux 6.1 knows nothing of it, and refuses an index without bounds."""
    b = Builder()
    one, two = (b.emit(Op.AND, b.load(offset), b.const(1)) for offset in (0, 8))
    b.end(Return(b.emit(Op.AND, b.emit(op, one, two), b.const(3))))
    assert computed(simplify(b.function()))[-1] is Op.AND


@pytest.mark.parametrize("factor", [32, 33])
def test_a_product_is_followed_only_of_factors_of_32_bits(factor: int) -> None:
    """Verifiers give up all bounds of others, which Python's numbers keep."""
    b = Builder()
    word = b.emit(Op.LSHR, b.load(0), b.const(64 - factor))
    product = b.emit(Op.MUL, word, b.const(7))
    b.end(Return(b.emit(Op.AND, product, b.const((1 << factor + 3) - 1))))
    assert (computed(simplify(b.function()))[-1] is Op.AND) == (factor > 32)
