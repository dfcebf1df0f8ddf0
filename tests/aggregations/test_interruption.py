"""A program may be interrupted between any two instructions by another that adds to the same value."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from pyebpf.aggregations import counter, log2_hist, maximum, minimum, stats
from pyebpf.aggregations.extremes import _ATTEMPTS
from pyebpf.builder.drop_counters import DROPS_MAP
from pyebpf.compiler.evaluator import Region
from pyebpf.types import S64
from tests.aggregations.model import Added, store
from tests.builder.harness import Nothing

NUMBERS = st.integers(-1000, 1000)


class Interrupted(Region):
    """Memory that another program adds to before the next access that this one makes, once for each value of `todo`."""

    __slots__ = ("others", "todo")

    def load(self, offset: int, size: int) -> bytes:
        if self.todo:
            number = self.todo.pop(0)
            if number is not None:
                others, self.others.entries = self.others.entries, {bytes(4): self}
                waiting, self.todo = self.todo, []
                self.others.add(number)
                self.todo, self.others.entries = waiting, others
        return Region.load(self, offset, size)


def interrupted(make: Any, value: int, others: list[int | None], target: Any = None) -> tuple[Any, list[int], int]:
    """The result, the values that were added, and how many losses were counted."""
    aggregation = make()
    mine, theirs = Added(aggregation, S64, target=target), Added(aggregation, S64, target=target)
    size = aggregation.type.layout.size
    region = Interrupted("value", bytearray(size), bytearray(b"\1" * size))
    region.todo, region.others = list(others), theirs
    mine.entries[bytes(4)] = region
    mine.add(value)
    left = region.todo
    region.todo = []
    aggregation.bind(store(mine))
    done = [number for number in others[: len(others) - len(left)] if number is not None]
    lost = mine.values.get(DROPS_MAP)
    return aggregation.snapshot(), [value, *done], 0 if lost is None else int.from_bytes(lost.data[:8], "little")


@given(NUMBERS, st.lists(st.none() | NUMBERS, max_size=_ATTEMPTS))
def test_extremes_are_exact_whoever_interrupts(value: int, others: list[int | None]) -> None:
    """Before the comparison, and before each exchange."""
    for make, best in ((minimum, min), (maximum, max)):
        found, values, lost = interrupted(make, value, others)
        assert (found, lost) == (best(values), 0)


@given(NUMBERS, st.lists(st.none() | NUMBERS, max_size=6))
def test_statistics_are_exact_whoever_interrupts(value: int, others: list[int | None]) -> None:
    """Count, total, minimum and maximum, each with its own accesses."""
    found, values, lost = interrupted(stats, value, others)
    assert (found.count, found.total, lost) == (len(values), sum(values), 0)
    assert (found.minimum, found.maximum) == (min(values), max(values))


@given(st.lists(st.none() | NUMBERS, max_size=3))
def test_counts_are_exact_whoever_interrupts(others: list[int | None]) -> None:
    """One atomic addition each."""
    found, values, _ = interrupted(log2_hist, 5, others)
    assert found.total == len(values)
    found, values, _ = interrupted(counter, 5, others)
    assert found == sum(values) % (1 << 64)


def test_an_extreme_interrupted_too_often_is_counted_as_lost() -> None:
    """Each time by a better value that comes between two instructions."""
    better = [None, *range(6, 6 + _ATTEMPTS)]
    found, values, lost = interrupted(maximum, 5, better)
    assert len(values) == 1 + _ATTEMPTS
    assert lost == 1
    assert found < max(values)


@given(NUMBERS, NUMBERS)
def test_an_extreme_without_an_exchange_keeps_one_of_the_two(value: int, other: int) -> None:
    """Before Linux 5.12 a value is stored over what an interrupting program put there after the comparison."""
    for make, best in ((minimum, min), (maximum, max)):
        found, values, lost = interrupted(make, value, [other], Nothing())
        assert (found, lost) == (best(values), 0)
        found, _, lost = interrupted(make, value, [None, other], Nothing())
        assert found in (value, other)
        assert lost == 0
