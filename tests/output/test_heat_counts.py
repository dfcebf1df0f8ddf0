"""Counts for heat maps: they add up however many values come and however long, and take constant memory."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from pyebpf.output.heat_counts import (
    MAX_COLUMNS,
    MAX_KEYS,
    MOST_COLUMNS,
    MOST_LINEAR_ROWS,
    MOST_ROWS,
    EventCounts,
    IntervalCounts,
)
from pyebpf.output.heatmap import heat_map
from pyebpf.output.histogram import linear, log2

SECOND = 10**9
events = st.lists(st.tuples(st.integers(0, 10**14), st.integers(0, 10**13)), min_size=1, max_size=60)


def placed(grid):
    """Its counts by where columns begin, in nanoseconds, and by the bounds of rows."""
    return Counter(
        {
            (number * grid.width, grid.rows[row].low, grid.rows[row].high): count
            for number, column in enumerate(grid.columns)
            for row, count in column.items()
        }
    )


@pytest.mark.parametrize("scale", ["log", "linear"])
@given(events)
def test_each_event_is_in_the_cell_of_its_time_and_value(scale, events):
    """Whatever was merged on the way; what comes before the first event counts as the first column's."""
    counts = EventCounts(scale)
    for time, nanoseconds in events:
        counts.add(time, nanoseconds)
    (grid,) = counts.grids()
    assert grid.total == len(events)
    expected = Counter()
    for time, nanoseconds in events:
        (row,) = (row for row in grid.rows if row.low <= nanoseconds // 1000 <= row.high)
        since = max(time - events[0][0], 0)
        expected[since // grid.width * grid.width, row.low, row.high] += 1
    assert placed(grid) == expected
    assert [row.count for row in grid.rows] == [
        sum(count for (_, low, _), count in expected.items() if low == row.low) for row in grid.rows
    ]
    assert len(grid.columns) <= MOST_COLUMNS
    assert len(grid.rows) <= (MOST_LINEAR_ROWS if scale == "linear" else 4 * 44)
    assert all(a.high + 1 == b.low for a, b in zip(grid.rows, grid.rows[1:], strict=False))


@pytest.mark.parametrize(
    ("seconds", "width"), [(0.05, 0.001), (0.7, 0.01), (57, 0.5), (119, 1), (3000, 30), (86_000, 1200)]
)
def test_columns_are_round(seconds, width):
    """Widths in which people count, and not too few of them."""
    counts = EventCounts("log")
    for number in range(1009):
        counts.add(7 * SECOND + int(number * seconds * SECOND) // 1008, 5000)
    (grid,) = counts.grids()
    assert grid.width == width * SECOND
    assert len(grid.columns) > MOST_COLUMNS // 5
    assert grid.total == 1009


def test_memory_is_constant():
    """A hundred thousand events over a hundred days, whose times and durations are spread as widely as can be."""
    counts = EventCounts("linear")
    for number in range(100_003):
        counts.add(number * 86 * SECOND, number * number * 1000)
    assert len(counts._columns.counts) <= MAX_COLUMNS
    assert sum(map(len, counts._columns.counts.values())) <= 2 * MAX_COLUMNS
    assert counts.grids()[0].total == 100_003


def test_nothing_gives_no_picture():
    """Of events and of histograms without counts."""
    assert EventCounts("log").grids() == []
    counts = IntervalCounts(SECOND)
    counts.add(SECOND, [log2([0, 0])])
    assert counts.grids() == []


def test_histograms_of_intervals():
    """A column an interval, a picture a key, the one with the most values first; all reach to the last interval."""
    counts = IntervalCounts(SECOND)
    counts.add(int(1.01 * SECOND), [log2([0, 1, 5, 7], unit="usecs", labels={"disk": "vda"})])
    counts.add(int(2.01 * SECOND), [])
    counts.add(int(3.02 * SECOND), [log2([0, 2], unit="usecs", labels={"disk": "vdb"})])
    counts.add(int(3.5 * SECOND), [log2([0, 0, 0, 3], unit="usecs", labels={"disk": "vda"})])
    first, second = counts.grids()
    assert (first.title, second.title) == ("disk = 'vda'", "disk = 'vdb'")
    assert (first.unit, first.scale, first.width) == ("usecs", "log", SECOND)
    assert placed(first) == {(0, 1, 1): 1, (0, 2, 3): 5, (0, 4, 7): 7, (3 * SECOND, 4, 7): 3}
    assert placed(second) == {(2 * SECOND, 1, 1): 2}
    assert len(first.columns) == len(second.columns) == 4


def test_an_interval_that_was_read_too_late():
    """It is where it ended; a column whose end nobody read is marked, and the first of all may be one."""
    counts = IntervalCounts(SECOND)
    for end, value in ((1.4, 3), (2.0, 5), (3.02, 7), (5.03, 11), (6.0, 13), (8.9, 17), (9.1, 19)):
        counts.add(int(end * SECOND), [log2([0, value])])
    (grid,) = counts.grids()
    assert [sum(column.values()) for column in grid.columns] == [3, 5, 7, 0, 11, 13, 0, 17, 19]
    assert grid.late == {3, 6}
    counts = IntervalCounts(SECOND)
    counts.add(3 * SECOND, [log2([0, 2])])
    assert counts.grids()[0].late == {0, 1}
    assert "grey: read too late, counted in the next column (2)" in heat_map(counts.grids(), title="")


def test_one_reading_without_an_interval():
    """It is a column as wide as all that was watched."""
    counts = IntervalCounts(0)
    counts.add(int(4.2 * SECOND), [log2([0, 2])])
    (grid,) = counts.grids()
    assert (grid.width, len(grid.columns), grid.total, grid.late) == (int(4.2 * SECOND), 1, 2, frozenset())


def test_many_intervals_are_merged_in_pairs():
    """And none of their values is lost."""
    counts = IntervalCounts(SECOND)
    for number in range(5003):
        counts.add((number + 1) * SECOND, [linear([number % 7, 1, 2], unit="percent")])
    (grid,) = counts.grids()
    assert grid.scale == "linear"
    assert grid.total == sum(number % 7 + 3 for number in range(5003))
    assert len(grid.columns) <= MOST_COLUMNS
    assert grid.width % (2 * SECOND) == 0
    assert [(row.low, row.high) for row in grid.rows] == [(0, 0), (1, 1), (2, 2)]


def test_many_keys_and_many_rows_are_bounded():
    """Keys beyond the most are one; rows that a picture has no room for are shown several as one."""
    counts = IntervalCounts(SECOND)
    for pid in range(101):
        counts.add(SECOND, [log2([0, 1], labels={"pid": pid}), linear([1] * 1009, labels={"pid": -1})])
    grids = counts.grids()
    assert len(grids) <= MAX_KEYS + 2
    assert sum(grid.total for grid in grids) == 101 + 101 * 1009
    assert all(len(grid.rows) <= MOST_ROWS for grid in grids)
    assert sum(grid.total for grid in grids if grid.title.startswith("others")) == 101 - (MAX_KEYS - 1)


def test_histograms_of_other_buckets_are_a_picture_of_their_own():
    """They cannot be counted together."""
    counts = IntervalCounts(SECOND)
    counts.add(SECOND, [log2([1], unit="usecs"), log2([2], unit="bytes"), log2([1, 1, 1], unit="usecs")])
    assert [(grid.unit, grid.total) for grid in counts.grids()] == [("usecs", 4), ("bytes", 2)]


def test_labels_that_are_measured_make_no_pictures():
    """A function's average is another one in each interval: its histograms are in one picture."""
    counts = IntervalCounts(SECOND)
    for number in (1, 2):
        labels = {"function": "f", "average_ns": number, "total_ns": 7 * number, "count": 7}
        counts.add(number * SECOND, [log2([0, 7], unit="nsecs", labels=labels)])
    (grid,) = counts.grids()
    assert (grid.title, grid.total) == ("function = 'f'", 14)
