"""Regions: what must be done on every way out of a piece of program."""

from __future__ import annotations

import pytest

from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.function import Join
from pyebpf.compiler.ir import Condition
from tests.builder.harness import Probe

CLEANED = 118


def build(leave: str) -> Probe:
    """A region that `leave` ends if word 1 is set; its cleanup ends with a condition on word 0."""
    p = Probe()
    b = p.b
    wanted, early = (b.load(p.context, 8 * n, 8) for n in range(2))
    zero = b.const(0)

    def cleanup() -> None:
        with b.if_(Compare(Condition.NE, wanted, zero)):
            b.call(CLEANED)

    behind = Join()
    with b.region(cleanup), b.if_(Compare(Condition.NE, early, zero)):
        if leave == "return":
            b.ret(b.const(1))
        elif leave == "jump":
            b.jump(behind)
    b.jump(behind)
    b.start(behind)
    b.ret(b.const(2))
    return p


@pytest.mark.parametrize("leave", ["end", "return", "jump"])
@pytest.mark.parametrize("wanted", [0, 1])
@pytest.mark.parametrize("early", [0, 1])
def test_a_cleanup_may_end_with_a_condition(leave: str, wanted: int, early: int) -> None:
    """It runs once, whichever way is taken, and what follows does not become its `else`."""
    calls = []
    answer = build(leave).run(wanted, early, helpers={CLEANED: lambda *_: calls.append(1) or 0})
    assert answer == (1 if leave == "return" and early else 2)
    assert len(calls) == wanted


def test_cleanups_run_from_the_inside_out() -> None:
    """Of two regions the inner one is left first, also by a return."""
    order: list[int] = []
    p = Probe()
    b = p.b

    def cleanup(number: int) -> None:
        with b.if_(Compare(Condition.NE, b.load(p.context, 0, 8), b.const(0))):
            b.call(CLEANED, b.const(number))

    with b.region(lambda: cleanup(1)), b.region(lambda: cleanup(2)):
        b.ret(b.const(7))
    assert p.run(1, helpers={CLEANED: lambda _, number: order.append(number) or 0}) == 7
    assert order == [2, 1]
