"""The bucket that a value is counted in: what programs do, run by the evaluator, beside what the output promises."""

from __future__ import annotations

from collections import Counter as Tally
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, strategies as st

from pyebpf.aggregations import linear_hist, log2_hist, log_linear_hist
from pyebpf.types import S8, S32, S64, U8, U16, U32, U64, IntType
from tests.aggregations.model import Added, store

if TYPE_CHECKING:
    from pyebpf.output.histogram import Histogram

EDGES = sorted({sign * (1 << n) + d for n in range(64) for d in (-1, 0, 1) for sign in (-1, 1)})
TYPES = [U8, U16, U32, U64, S8, S32, S64]

SHAPES: dict[str, Any] = {
    "log2": log2_hist,
    **{f"log_linear {bits}": lambda bits=bits: log_linear_hist(bits) for bits in (1, 2, 3, 5)},
    "linear 0 100": lambda: linear_hist(0, 100),
    "linear 0 1000 64": lambda: linear_hist(0, 1000, 64),
    "linear -50 51 7": lambda: linear_hist(-50, 51, 7),
    "linear all": lambda: linear_hist(-(1 << 63), (1 << 63) - 1 - (1 << 61), 1 << 61),
    "linear high": lambda: linear_hist(1 << 40, (1 << 40) + 17, 3),
}


@cache
def built(shape: str, type_: IntType) -> Any:
    aggregation = SHAPES[shape]()
    return Added(aggregation, type_)


def counted(shape: str, type_: IntType, *values: int) -> Histogram:
    added = built(shape, type_)
    for region in added.entries.values():
        region.data[:] = bytes(len(region.data))
    for value in values:
        added.add(value)
    added.aggregation.bind(store(added))
    result: Histogram = added.aggregation.snapshot()
    return result


def holds(histogram: Histogram, value: int) -> bool:
    """Whether the only bucket that counted is the one whose range has the value."""
    [bucket] = [b for b in histogram.buckets if b.count]
    return (bucket.low is None or bucket.low <= value) and (bucket.high is None or value <= bucket.high)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_edges_fall_in_the_bucket_whose_range_has_them(shape: str, type_: IntType) -> None:
    """Powers of two and their neighbours, of both signs, as the type holds them."""
    for edge in EDGES:
        value = type_.wrap(edge)
        assert holds(counted(shape, type_, value), value), value


@given(st.sampled_from(sorted(SHAPES)), st.sampled_from(TYPES), st.integers(-(1 << 63), (1 << 64) - 1))
@example("linear -50 51 7", U64, (1 << 64) - 3)
@example("linear -50 51 7", S64, -51)
def test_any_value_falls_in_the_bucket_whose_range_has_it(shape: str, type_: IntType, number: int) -> None:
    """Whatever the type."""
    value = type_.wrap(number)
    assert holds(counted(shape, type_, value), value)


@given(st.lists(st.integers(-5, 300), max_size=23))
def test_nothing_is_counted_twice_or_left_out(values: list[int]) -> None:
    """As many counts as values, bucket by bucket."""
    histogram = counted("linear 0 100", S64, *values)
    inside = Tally(value for value in values if 0 <= value < 100)
    assert histogram.total == len(values)
    assert [b.count for b in histogram.buckets[1:-1]] == [inside[i] for i in range(100)]
    assert histogram.buckets[0].count == sum(value < 0 for value in values)


def test_zero_and_negative_values_have_buckets_of_their_own() -> None:
    """One for 0, one for all below; the greatest u64 is not a negative number."""
    histogram = counted("log2", S64, 0, -1, -(1 << 63), 1)
    assert [(b.low, b.high, b.count) for b in histogram.buckets[:3]] == [(None, -1, 2), (0, 0, 1), (1, 1, 1)]
    assert counted("log2", U64, (1 << 64) - 1).buckets[-1].count == 1


def test_a_linear_histogram_ends_at_a_whole_step() -> None:
    """0 to 10 in steps of 4 ends at 12."""
    histogram = linear_hist(0, 10, 4).type.result((0,) * 5, {})
    assert [(b.low, b.high) for b in histogram.buckets] == [(None, -1), (0, 3), (4, 7), (8, 11), (12, None)]
