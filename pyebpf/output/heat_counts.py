"""Counts by time and by value, for heat maps: in constant memory, however many values and however long.

Columns of time become wider, each new one several of the old, when there are more than MAX_COLUMNS of them. So do the
rows of a linear scale.
"""

from __future__ import annotations

from itertools import chain, cycle
from typing import TYPE_CHECKING, Literal

from pyebpf.dataclass import dataclass, replace
from pyebpf.output.escape import escaped
from pyebpf.output.histogram import MEASURED, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyebpf.output.histogram import Histogram

Scale = Literal["log", "linear"]
Counts = dict[int, int]

MAX_COLUMNS, MAX_ROWS, MAX_KEYS = 600, 200, 32
#: Columns and rows that a picture shows at most.
MOST_COLUMNS, MOST_LINEAR_ROWS, MOST_ROWS = 120, 50, 128
_SECOND = 10**9
#: Widths from a millisecond on: 2, 10, 20, 100 … milliseconds, 1, 2, 10, 20 seconds, 1, 2, 10, 20 minutes, hours.
_FIRST_WIDTH, _FACTORS = 10**6, (2, 5, 2, 5, 2, 5, 2, 5, 2, 3, 2, 5, 2, 3)
#: Times that people count in.
_ROUND = {m * 10**k for m in (1, 2, 5) for k in range(10)} | {
    seconds * _SECOND
    for seconds in (10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
}
#: A power of two has so many rows on a logarithmic scale, as a power of two.
_BITS = 2
OTHERS = "others"


@dataclass(frozen=True)
class Grid:
    """Counts of one heat map: `rows` are buckets with their totals, without gaps, in rising order.

    A column is `width` nanoseconds wide, the first begins at 0. It has its counts by the number of the row. `values`
    says what was counted, if that is known.
    """

    title: str
    unit: str
    scale: Scale
    rows: tuple[Bucket, ...]
    width: int
    columns: tuple[Mapping[int, int], ...]
    values: str = ""
    #: Columns in which nothing was read, since the machine was too busy: what they had is in the next one.
    late: frozenset[int] = frozenset()

    @property
    def total(self) -> int:
        """The number of values."""
        return sum(row.count for row in self.rows)


class _Columns:
    """Counts by the row's number, in columns of one width."""

    def __init__(self, width: int, factors: Iterator[int]) -> None:
        self.width, self._factors = width, factors
        self.counts: dict[int, Counts] = {}

    def number(self, time: int) -> int:
        """The number of the column of a time, from 0 on."""
        while time // self.width >= MAX_COLUMNS:
            factor = next(self._factors)
            self.width *= factor
            self.counts = _merged(self.counts, factor)
        return max(time // self.width, 0)

    def at(self, time: int) -> Counts:
        """The counts of the column of a time."""
        number = self.number(time)  # which may merge the columns
        return self.counts.setdefault(number, {})

    def drawn(self) -> tuple[int, list[Counts]]:
        """Width and counts of the columns of a picture."""
        count = max(self.counts, default=-1) + 1
        factor = _factor(count, self.width)
        counts = _merged(self.counts, factor)
        return self.width * factor, [counts.get(number, {}) for number in range(-(-count // factor))]


def _factor(count: int, width: int) -> int:
    """The number of columns that a picture shows as one: its width is round, if it can be."""
    fewest = max(-(-count // MOST_COLUMNS), 1)
    if fewest == 1:
        return 1
    return next((factor for factor in range(fewest, 5 * fewest + 1) if factor * width in _ROUND), fewest)


def _merged(columns: Mapping[int, Mapping[int, int]], factor: int) -> dict[int, Counts]:
    merged: dict[int, Counts] = {}
    for number, counts in columns.items():
        _add(merged.setdefault(number // factor, {}), counts.items())
    return merged


def _add(to: Counts, counts: Iterable[tuple[int, int]]) -> None:
    for row, count in counts:
        to[row] = to.get(row, 0) + count


class EventCounts:
    """Counts of single times, in nanoseconds, by microseconds: four rows for a power of two, or linear ones."""

    def __init__(self, scale: Scale, values: str = "") -> None:
        self._scale, self._values = scale, values
        self._columns = _Columns(_FIRST_WIDTH, chain(_FACTORS, cycle((2,))))
        self._step, self._steps = 1, cycle((2, 5))
        self.first: int | None = None
        self._begin = self._end = 0  # of the column that the last one was in
        self._counts: Counts = {}

    def add(self, time: int, nanoseconds: int) -> None:
        """Count what took so long, and was there at a time of any clock of nanoseconds; less than 0 counts as 0."""
        if not self._begin <= time < self._end:
            self._move(time)
        value = nanoseconds // 1000 if nanoseconds > 0 else 0
        if self._scale == "linear":
            row = value // self._step
            if row >= MAX_ROWS:
                self._grow(value)
                row = value // self._step
        elif value < 1 << _BITS:
            row = value
        else:
            shift = value.bit_length() - _BITS - 1
            row = (shift << _BITS) + (value >> shift)
        self._counts[row] = self._counts.get(row, 0) + 1

    def grids(self) -> list[Grid]:
        """The one picture; none if nothing was counted."""
        width, columns = self._columns.drawn()
        seen = {row for column in columns for row in column}
        if not seen:
            return []
        if self._scale == "linear":
            factor = _round_rows(max(seen) + 1, self._step)
            columns = [_grouped(column, factor, 0) for column in columns]
            step = self._step * factor
            rows = [Bucket(row * step, (row + 1) * step - 1, 0) for row in range(max(seen) // factor + 1)]
        else:
            first = min(seen)
            columns = [_grouped(column, 1, first) for column in columns]
            rows = [_log_row(row) for row in range(first, max(seen) + 1)]
        return [_grid(("", self._values), "usecs", self._scale, rows, width, columns)]

    def _move(self, time: int) -> None:
        """Make the column of a time the current one; what comes before the first counts as the first."""
        if self.first is None:
            self.first = time
        number = self._columns.number(time - self.first)
        self._counts = self._columns.at(time - self.first)
        self._begin = self.first + number * self._columns.width
        self._end = self._begin + self._columns.width

    def _grow(self, value: int) -> None:
        while value // self._step >= MAX_ROWS:
            factor = next(self._steps)
            self._step *= factor
            for counts in self._columns.counts.values():
                grouped = _grouped(counts, factor, 0)
                counts.clear()
                counts.update(grouped)


def _round_rows(count: int, step: int) -> int:
    """The number of rows that a picture shows as one."""
    fewest = -(-count // MOST_LINEAR_ROWS)
    return next((factor for factor in range(fewest, 5 * fewest + 1) if factor * step in _ROUND), fewest)


def _log_row(row: int) -> Bucket:
    power, part = divmod(row, 1 << _BITS)
    shift = max(power - 1, 0)
    low = row if power == 0 else ((1 << _BITS) + part) << shift
    return Bucket(low, low + (1 << shift) - 1, 0)


def _grouped(counts: Mapping[int, int], factor: int, first: int) -> Counts:
    """The counts of each `factor` rows as one, numbered from `first` on."""
    grouped: Counts = {}
    _add(grouped, (((row - first) // factor, count) for row, count in counts.items()))
    return grouped


def _grid(
    names: tuple[str, str],
    unit: str,
    scale: Scale,
    rows: Sequence[Bucket],
    width: int,
    columns: Sequence[Mapping[int, int]],
) -> Grid:
    totals: Counts = {}
    for column in columns:
        _add(totals, column.items())
    counted = tuple(Bucket(row.low, row.high, totals.get(number, 0)) for number, row in enumerate(rows))
    return Grid(names[0], unit, scale, counted, width, tuple(columns), names[1])


#: The row of a bucket without a lower bound stands below all others, whose rows are their lower bounds.
BOTTOM = -(1 << 65)


class _Key:
    """The histograms of one key. Some have all buckets, those of recordings from the first that counted to the last."""

    def __init__(self, like: Histogram, width: int) -> None:
        self.unit, self.kind = like.unit, like.kind
        self.buckets: dict[int, Bucket] = {}
        self.columns = _Columns(width, cycle((2,)))
        self.total = 0

    def fits(self, other: Histogram) -> bool:
        """Whether the other's buckets are of the same kind; those that both have, with the same bounds."""
        known = self.buckets
        return (self.unit, self.kind) == (other.unit, other.kind) and all(
            known.get(row_of(each), each).high == each.high for each in other.buckets
        )

    def add(self, time: int, histogram: Histogram) -> None:
        for bucket in histogram.buckets:
            self.buckets.setdefault(row_of(bucket), bucket)
        _add(self.columns.at(time), ((row_of(bucket), bucket.count) for bucket in histogram.buckets if bucket.count))
        self.total += histogram.total

    def grid(self, title: str) -> Grid:
        """Its picture."""
        width, drawn = self.columns.drawn()
        seen = {row for column in drawn for row in column}
        places: dict[int, int] = {}
        buckets: list[Bucket] = []
        for row in sorted(row for row in self.buckets if min(seen) <= row <= max(seen)):
            bucket, last = self.buckets[row], buckets[-1].high if buckets else None
            if last is not None and bucket.low is not None and bucket.low > last + 1:
                buckets.append(Bucket(last + 1, bucket.low - 1, 0))  # no interval had anything between
            places[row] = len(buckets)
            buckets.append(bucket)
        factor = -(-len(buckets) // MOST_ROWS)
        groups = [buckets[first : first + factor] for first in range(0, len(buckets), factor)]
        rows = [Bucket(group[0].low, group[-1].high, 0) for group in groups]
        columns = [_grouped({places[row]: n for row, n in each.items()}, factor, 0) for each in drawn]
        scale: Scale = "linear" if self.kind == "linear" else "log"
        return _grid((title, ""), self.unit, scale, rows, width, columns)


def row_of(bucket: Bucket) -> int:
    """The number that a bucket's row is sorted and found by."""
    return BOTTOM if bucket.low is None else bucket.low


class IntervalCounts:
    """Counts of the histograms of each `interval`, in nanoseconds, by their keys; 0 for one that ends when it ends."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._keys: dict[str, _Key] = {}
        self._read = _Columns(interval, cycle((2,)))
        self._began = self._ended = 0

    def add(self, time: int, histograms: Iterable[Histogram]) -> None:
        """Count the histograms of the interval that ended so many nanoseconds after the beginning."""
        if not self._interval:
            self._interval = self._read.width = max(time, 1)
        if time > self._ended:
            # It is read when its end has passed, which may be long ago; the last one also before.
            passed, before = self._passed(time), self._passed(self._ended)
            self._began = (passed - 1 if passed > before else passed) * self._interval
            self._ended = time
            self._read.at(self._began)[0] = 1
        for histogram in histograms:
            if histogram.total:
                self._key(histogram).add(self._began, histogram)

    def _passed(self, time: int) -> int:
        """How many intervals have ended by a time, which may be a little early."""
        return (time + self._interval // 20) // self._interval

    def _key(self, histogram: Histogram) -> _Key:
        named = {name: value for name, value in histogram.labels.items() if name not in MEASURED}
        title = " ".join(histogram.with_labels(named).heading().split()) if named else ""
        if title not in self._keys and len(self._keys) >= MAX_KEYS:
            title = f"{OTHERS} ({escaped(histogram.unit)})"
        key = self._keys.get(title)
        while key is not None and not key.fits(histogram):
            title = f"{title} ({escaped(histogram.unit)})"
            key = self._keys.get(title)
        if key is None:
            key = self._keys[title] = _Key(histogram, self._interval)
        return key

    def grids(self) -> list[Grid]:
        """A picture for each key, those with the most values first."""
        for key in self._keys.values():  # equally wide, to the last interval
            key.columns.at(self._began)
        late = frozenset(number for number, read in enumerate(self._read.drawn()[1]) if not read)
        return sorted(
            (replace(key.grid(title), late=late) for title, key in self._keys.items()),
            key=lambda grid: (-grid.total, grid.title),
        )
