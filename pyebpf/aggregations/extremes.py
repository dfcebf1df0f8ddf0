"""The least or the greatest value.

A word holds the value in a form in which a better one is greater, unsigned, and the worst one is 0: so a word that
nothing was added to loses against any other. A second word tells whether anything was, since that may have been the
worst. Values are s64; a u64 from 2^63 on counts as the greatest s64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.aggregation_type import AggregationType
from pyebpf.aggregations.buckets import signed
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.function import Join
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir

_TOP = 1 << 63
_ALL = (1 << 64) - 1
#: Times in a row that a program may be interrupted by another that adds to the same word, between two instructions.
_ATTEMPTS = 4


def _mask(*, greatest: bool) -> int:
    """The bits that turn a value into its word and back: the sign bit, and for a minimum all the others too."""
    return _TOP if greatest else _ALL ^ _TOP


def extreme_of(word: int, *, greatest: bool) -> int:
    """Return the value that a word stands for."""
    value = word ^ _mask(greatest=greatest)
    return value - (1 << 64) if value >> 63 else value


def keep_extreme(p: ProgramBuilder, place: ir.Value, offset: int, value: Int, *, greatest: bool) -> None:
    """Append the code that puts a value into its word if it is better than what stands there.

    An exchange gives back what was there. If that was better after all, another program has put it there since the
    comparison, and it is exchanged back in turn: the best one stays, whoever interrupts whom.

    Kernels before Linux 5.12 have no exchange, so the value is stored. Each processor has cells of its own, so nothing
    is lost to other processors; a better value is lost if a program adds it that interrupts this one between the
    comparison and the store.
    """
    b = p.b
    held = b.binary(Op.XOR, signed(p, value), b.const(_mask(greatest=greatest)))
    done = Join("extreme kept")
    better = Join("better")
    b.branch(Compare(Relation.UGT, held, b.load(place, offset, 8)), better, done)
    b.start(better)
    if not p.target.has("isa:atomic"):
        b.store(place, offset, held, 8)
        b.jump(done)
        b.start(done)
        return
    for _ in range(_ATTEMPTS):
        old = b.emit(Op.ATOMIC, place, held, result=ValueType.SCALAR, imm=offset, size=8, symbol="xchg")
        again = Join("again")
        b.branch(Compare(Relation.UGT, old, held), again, done)
        b.start(again)
        held = old
    count_drop(p, "an extreme value was interrupted too often")
    b.jump(done)
    b.start(done)


def note_presence(p: ProgramBuilder, place: ir.Value, offset: int) -> None:
    """Append the code that tells that something was added."""
    p.b.store(place, offset, p.b.const(1), 8)


class _Extreme(AggregationType[int]):
    codes = "QQ"
    combine = (max, max)
    greatest: bool

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        keep_extreme(p, place, 0, value, greatest=self.greatest)
        note_presence(p, place, 8)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> int:  # noqa: ARG002 - one signature for all kinds
        return extreme_of(cells[0], greatest=self.greatest)


class Minimum(_Extreme):
    """The least value."""

    name = "a minimum"
    greatest = False


class Maximum(_Extreme):
    """The greatest value."""

    name = "a maximum"
    greatest = True
