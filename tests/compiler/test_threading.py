"""Threading: a test that every way to it knows is skipped, and no other."""

from __future__ import annotations

import struct

import pytest

from pyebpf.compiler import ir
from pyebpf.compiler.checker import check_function
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return
from pyebpf.compiler.passes.threading import thread_known
from tests.compiler.support import Builder, run

#: First words of a context, so that any two of them compare in every way.
WORDS = ((1, 2, 3), (2, 1, 3), (2, 2, 2), (3, 1, 2))


def keeps_the_meaning(before: ir.Function, after: ir.Function) -> None:
    check_function(after)
    for words in WORDS:
        context = struct.pack("<8Q", *words, 0, 0, 0, 0, 0)
        assert run(ir.Module((after,)), context) == run(ir.Module((before,)), context), words


def compared_twice(first: Condition, second: Condition, *, against: int) -> ir.Function:
    """The first two words compared; both ways meet; the first compared again, with the word numbered `against`."""
    b = Builder()
    words = [b.load(n) for n in range(3)]
    b.end(Branch(first, words[0], words[1], 1, 2))
    b.end(Jump(3, (b.const(10),)))
    b.end(Jump(3, (b.const(20),)))
    merged = b.value()
    b.end(Branch(second, words[0], words[against], 4, 5), [merged])
    b.end(Return(b.emit(Op.ADD, merged, b.const(1))))
    b.end(Return(b.const(2)))
    return b.function()


@pytest.mark.parametrize(
    ("first", "second", "against", "known"),
    [
        (Condition.ULT, Condition.ULT, 1, True),
        (Condition.ULT, Condition.UGE, 1, True),
        (Condition.ULT, Condition.ULE, 1, False),
        (Condition.ULT, Condition.ULT, 2, False),
        (Condition.SLE, Condition.SGT, 1, True),
    ],
)
def test_a_test_is_known_from_the_same_or_the_opposite_one(
    first: Condition, second: Condition, against: int, known: bool
) -> None:
    """Of the same two values; and it goes where it would have gone."""
    before = compared_twice(first, second, against=against)
    after = thread_known(before)
    assert (after == before) == (not known)
    keeps_the_meaning(before, after)


def test_a_branch_says_nothing_where_another_way_leads_too() -> None:
    """Behind `if a < b: ...` both may be."""
    b = Builder()
    words = [b.load(n) for n in range(3)]
    b.end(Branch(Condition.ULT, words[0], words[1], 1, 2))
    b.end(Jump(2))
    b.end(Jump(3, (words[2],)))
    merged = b.value()
    b.end(Branch(Condition.ULT, words[0], words[1], 4, 5), [merged])
    b.end(Return(merged))
    b.end(Return(b.const(2)))
    before = b.function()
    assert thread_known(before) == before


def test_a_merged_value_needed_behind_both_targets_keeps_its_block() -> None:
    """There is no one target that could take it over."""
    b = Builder()
    words = [b.load(n) for n in range(3)]
    b.end(Branch(Condition.ULT, words[0], words[1], 1, 2))
    b.end(Jump(3, (b.const(10),)))
    b.end(Jump(3, (b.const(20),)))
    merged = b.value()
    b.end(Branch(Condition.ULT, words[0], words[1], 4, 5), [merged])
    b.end(Jump(6, (b.const(1),)))
    b.end(Jump(6, (b.const(2),)))
    step = b.value()
    b.end(Return(b.emit(Op.ADD, merged, step)), [step])
    before = b.function()
    after = thread_known(before)
    assert after == before
    keeps_the_meaning(before, after)
