"""`for … in range(…)`: a bounded loop, which every verifier since Linux 5.3 walks round by round.

The bound must be provable: the verifier ends at a constant, whatever it has forgotten of the numbers by then. So a loop
whose ends only each event knows also counts its rounds to the most that there can be.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyebpf.builder.conditions import Always, Compare
from pyebpf.builder.function import Join, Loop
from pyebpf.builder.integers import Int, relation
from pyebpf.builder.operations import settled, to_int
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.compiler.ir import Op
from pyebpf.types import S64, U64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyebpf.builder.conditions import Test
    from pyebpf.builder.environment import Interval, Variable
    from pyebpf.builder.program import ProgramBuilder

__all__ = ["MOST_ROUNDS", "range_loop"]

#: Verifiers keep a state for each round that may be left early, 8192 at the most.
MOST_ROUNDS = 4096


@contextmanager
def range_loop(
    p: ProgramBuilder, start: Any, stop: Any, step: Any, carried: Iterable[Variable] | None = None
) -> Iterator[tuple[Loop, Int]]:
    """Build the body once for each number of `range(start, stop, step)`.

    Gives the loop, for `break_` and `continue_`, and the number. `carried` are the variables that the body assigns.
    """
    start, stop, step = (settled(p, each) for each in (start, stop, step))
    if not isinstance(step, int):
        p.fail("the step of range() must be known while compiling")
    if step == 0:
        p.fail("the step of range() must not be zero")
    first, last = to_int(p, start), to_int(p, stop)
    most = _most_rounds(p, first, last, step)
    b = p.b
    # From a constant the number itself is counted, unless it would leave s64 on the way out; else the rounds are.
    direct = isinstance(start, int) and S64.minimum <= start + most * step <= S64.maximum
    counter = b.variable(hint="round")
    b.write(counter, first.value if direct else b.const(0))
    with b.loop(None if carried is None else [*carried, counter]) as loop:
        found = b.read(counter)
        assert found is not None
        rounds, index = found, found
        inside = Join("body")
        if direct:
            limit = b.const(int(start) + most * step)
            more: Test = Compare(Relation.SLT if step > 0 else Relation.SGT, rounds, limit)
        else:
            more = Compare(Relation.ULT, rounds, b.const(most))
            scaled = rounds if step == 1 else b.binary(Op.MUL, rounds, b.const(step))
            index = b.binary(Op.ADD, first.value, scaled)
        b.branch(more if most else Always(holds=False), inside, loop.end)
        b.start(inside)
        low, high = _index_bounds(b.bounds(first.value), b.bounds(last.value), step)
        type_ = U64 if first.type == U64 else S64
        if not (isinstance(start, int) and isinstance(stop, int)):
            running = Join("body")
            # In range by the constant; the event's own end may come earlier.
            b.assume_bounds(index, *_reach(b.bounds(first.value), most, step))
            number = Int(index, type_)
            b.branch(relation(p, "<" if step > 0 else ">", number, last), running, loop.end)
            b.start(running)
        b.assume_bounds(index, low, high)
        mine = Loop(loop.end, Join("next round"))
        yield mine, Int(index, type_)
        b.jump(mine.again)
        b.start(mine.again)
        if b.reachable:
            b.write(counter, b.binary(Op.ADD, rounds, b.const(step if direct else 1)))


def _most_rounds(p: ProgramBuilder, first: Int, last: Int, step: int) -> int:
    """The most rounds that there can be, or an error."""
    (low, high), (least, most) = p.b.bounds(first.value), p.b.bounds(last.value)
    unknown = [n for n, (a, z) in ((first, (low, high)), (last, (least, most))) if n.type == U64 and a < 0 and z >= 0]
    distance = most - low if step > 0 else high - least
    rounds = max(0, -(-distance // abs(step)))
    if unknown or rounds > MOST_ROUNDS:
        bound = "" if unknown or rounds > 1 << 32 else f" (here up to {rounds} rounds)"
        p.fail(
            f"range() needs a bound that can be proved, of at most {MOST_ROUNDS} rounds{bound}: "
            "write range(min(n, 64)), or test n first"
        )
    return rounds


def _index_bounds(first: Interval, last: Interval, step: int) -> Interval:
    """Bounds of the numbers that the body sees."""
    if step > 0:
        return first[0], max(last[1] - 1, first[0])
    return min(last[0] + 1, first[1]), first[1]


def _reach(first: Interval, most: int, step: int) -> Interval:
    """Bounds of the numbers that are tried, by the count of rounds alone."""
    span = max(most - 1, 0) * step
    return min(first[0], first[0] + span), max(first[1], first[1] + span)
