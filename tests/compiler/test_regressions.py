"""Faults that the compiler once had, each as the smallest function that showed it."""

from __future__ import annotations

import pytest

from pyebpf.compiler import compile_module, ir
from pyebpf.compiler.checker import check_function
from pyebpf.compiler.ir import Branch, Condition, Op, Return
from pyebpf.compiler.passes.flow import tidy_flow
from tests.compiler.support import CTX, NEWEST, OLDEST, Builder, Target, run
from tests.compiler.test_compiled_code import interpreted


def context(*words: int) -> bytes:
    return b"".join(word.to_bytes(8, "little") for word in (*words, *[0] * (8 - len(words))))


@pytest.mark.parametrize("target", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_an_and_that_two_branches_read_is_computed(target: Target) -> None:
    """Only an AND that one branch alone reads, at the end of its own block, may become a test of bits."""
    b = Builder()
    bits = b.emit(Op.AND, b.load(0), b.load(1))
    b.end(Branch(Condition.NE, bits, b.const(0), 1, 2))
    b.emit(Op.STORE, CTX, b.load(2), imm=0, result=None)  # what the AND read is changed, not the AND
    b.end(Branch(Condition.EQ, bits, b.const(4), 3, 4))
    b.end(Return(b.const(10)))
    b.end(Branch(Condition.NE, bits, b.const(0), 5, 2))
    b.end(Return(b.const(20)))
    b.end(Return(b.const(30)))
    module = b.module()
    for first, second, expected in ((5, 4, 30), (6, 3, 20), (8, 7, 10), (0, 0, 10)):
        given = context(first, second)
        returned, after = run(module, given)
        assert returned == expected
        assert interpreted(module, target, given) == (returned, after)


def test_an_and_read_by_a_branch_of_another_block_is_computed() -> None:
    """The bits are tested where the block ends that computes them: elsewhere its operands may be gone."""
    b = Builder()
    bits = b.emit(Op.AND, b.load(0), b.load(1))
    b.end(Branch(Condition.UGT, b.load(2), b.const(3), 1, 2))
    b.end(Branch(Condition.EQ, bits, b.const(0), 2, 3))
    b.end(Return(b.const(1)))
    b.end(Return(b.const(2)))
    for words, expected in (((6, 2, 9), 2), ((6, 1, 9), 1), ((6, 2, 3), 1)):
        given = context(*words)
        assert interpreted(b.module(), NEWEST, given) == run(b.module(), given) == (expected, given)


def test_a_function_whose_only_call_was_removed_is_left_out() -> None:
    """The verifier refuses a function that nothing calls; those that it alone calls go with it."""
    inner = Builder((ir.Value(0),))
    inner.end(Return(ir.Value(0)))
    outer = Builder((ir.Value(0),))
    outer.end(Return(outer.emit(Op.CALL_LOCAL, ir.Value(0), symbol="inner")))
    kept = Builder((ir.Value(0),))
    kept.end(Return(kept.emit(Op.ADD, ir.Value(0), kept.const(1))))
    b = Builder()
    word = b.load(0)
    b.end(Branch(Condition.EQ, b.const(3), b.const(4), 1, 2))
    b.end(Return(b.emit(Op.CALL_LOCAL, word, symbol="outer")))
    b.end(Return(b.emit(Op.CALL_LOCAL, word, symbol="kept")))
    module = ir.Module((b.function(), outer.function("outer"), kept.function("kept"), inner.function("inner")))
    code = compile_module(module, NEWEST, check=True)
    assert [each.name for each in code.subprograms] == ["main", "kept"]
    assert interpreted(module, NEWEST, context(41)) == (42, context(41))


def test_returns_of_one_constant_keep_what_is_done_before_them() -> None:
    """Two blocks that return the same are one only if they do nothing else."""
    b = Builder()
    five = b.const(5)
    b.end(Branch(Condition.EQ, b.load(0), b.load(1), 1, 2))
    for word in (2, 3):
        b.emit(Op.STORE, CTX, five, imm=8 * word, result=None)
        b.end(Return(five))
    for words in ((1, 1, 0, 0), (1, 2, 0, 0)):
        given = context(*words)
        assert interpreted(b.module(), NEWEST, given) == run(b.module(), given)


def test_a_shared_return_defines_what_it_returns() -> None:
    """Two blocks that return 5 are one only if that one makes its 5 itself: else one way there has never made it."""
    b = Builder()
    b.end(Branch(Condition.EQ, b.load(0), b.load(1), 1, 4))
    five = b.const(5)
    b.emit(Op.STORE, CTX, five, imm=8, result=None)
    b.end(Branch(Condition.EQ, b.load(2), b.load(3), 2, 3))
    b.end(Return(five))
    b.end(Return(b.load(4)))
    b.end(Return(b.const(5)))
    function = b.function()
    check_function(tidy_flow(function))
    for words in ((1, 1, 2, 2, 9), (1, 1, 2, 3, 9), (1, 2, 0, 0, 9)):
        given = context(*words)
        assert interpreted(b.module(), NEWEST, given) == run(b.module(), given)
