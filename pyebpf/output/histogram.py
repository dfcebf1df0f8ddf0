"""Histograms as plain data, and as bcc prints them.

Rows have bcc's shape, `low -> high : count |stars|`, from the first that counted to the last. As in bpftrace's, 0 and 1
have a row each, `0 -> 0` and `1 -> 1`; negative values share one, `< 0`. A linear histogram of step 1 has one number a
row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyebpf.dataclass import dataclass, field
from pyebpf.errors import InvalidValue
from pyebpf.output.escape import escaped, visible
from pyebpf.output.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STARS = 40
_NARROW, _WIDE = 10, 20  # digits of a bound: up to 2**32, up to 2**64
_LINE = 79


#: Labels that tell of the values, other ones in each interval, and not whose they are.
MEASURED = frozenset({"average_ns", "total_ns", "count"})


@dataclass(frozen=True, slots=True)
class Bucket(Record):
    """Count of values from `low` to `high`, both included; None is "no bound on that side"."""

    low: int | None
    high: int | None
    count: int

    def label(self, digits: int) -> str:
        """The range as a row shows it, its bounds aligned to `digits` characters."""
        if self.low is None:
            return f"{'<':>{digits}} {'' if self.high is None else self.high + 1}"
        if self.high is None:
            return f"{'>=':>{digits}} {self.low}"
        return f"{self.low:>{digits}} -> {self.high}"


@dataclass(frozen=True, slots=True)
class Histogram(Record):
    """A snapshot of one histogram: buckets in rising order without gaps, and the unit of their bounds.

    `labels` names what it is a histogram of, in order: `{"disk": "vda"}`. Empty for one without a key. A tuple, such as
    the frames of a stack, has a line for each of its items. `sum` is that of the values; None if it was not kept.
    """

    buckets: tuple[Bucket, ...]
    unit: str = "value"
    kind: Literal["log2", "linear", "log-linear"] = "log2"
    labels: Mapping[str, object] = field(default_factory=dict)
    sum: int | None = None

    def with_labels(self, labels: Mapping[str, object]) -> Histogram:
        """The same histogram with other labels."""
        return Histogram(self.buckets, self.unit, self.kind, labels, self.sum)

    def plus(self, other: Histogram) -> Histogram:
        """This histogram with the counts of another one that has the same buckets."""
        counts = [bucket.count for bucket in other.buckets]
        buckets = tuple(
            Bucket(own.low, own.high, own.count + count) for own, count in zip(self.buckets, counts, strict=True)
        )
        added = None if self.sum is None or other.sum is None else self.sum + other.sum
        return Histogram(buckets, self.unit, self.kind, self.labels, added)

    @property
    def average(self) -> float | None:
        """Mean of the values; None if their sum was not kept, or nothing was counted."""
        total = self.total
        return None if self.sum is None or not total else self.sum / total

    @property
    def total(self) -> int:
        """Number of values counted."""
        return sum(bucket.count for bucket in self.buckets)

    def rows(self) -> tuple[Bucket, ...]:
        """The buckets from the first that counted to the last; none if nothing was counted."""
        counted = [i for i, bucket in enumerate(self.buckets) if bucket.count]
        return self.buckets[counted[0] : counted[-1] + 1] if counted else ()

    def heading(self) -> str:
        """The line above a keyed histogram, `disk = 'vda'`, below it those of tuples; empty without a key."""
        below = [f"\t{escaped(str(item))}" for value in self.labels.values() for item in _items(value)]
        line = ", ".join(
            f"{name} = '{escaped(value)}'" if isinstance(value, str | bytes) else f"{name} = {escaped(str(value))}"
            for name, value in self.labels.items()
            if not isinstance(value, tuple)
        )
        return "\n".join([*([line] if line or not below else []), *below])

    def lines(self) -> Iterator[str]:
        """The histogram as bcc prints it, without its heading: at most 80 columns; nothing if it is empty."""
        rows = self.rows()
        if not rows:
            return
        single = self.kind == "linear" and all(None in (r.low, r.high) or r.low == r.high for r in rows)
        longest = max(len(str(bound)) for r in rows for bound in (r.low, r.high) if bound is not None)
        if single:
            digits, span, indent = max(_NARROW, longest), max(_NARROW, longest) + 8, 5
        else:
            digits = _NARROW if longest <= _NARROW else _WIDE
            span, indent = 2 * digits + 4, 5 if digits == _NARROW else 15
        counts = max(8, *(len(str(r.count)) for r in rows))
        stars = min(STARS if digits == _NARROW else STARS // 2, _LINE - span - counts - 6)
        peak = max(r.count for r in rows)
        header = f"{' ' * indent}{visible(self.unit):<{span - indent}} : {'count':<{counts}}  distribution"
        yield header[:_LINE]
        for row in rows:
            label = _single_label(row) if single else row.label(digits)
            bar = "*" * (stars * row.count // peak)
            yield f"{label:<{span}} : {row.count:<{counts}} |{bar:<{stars}}|"

    def __str__(self) -> str:
        heading = [self.heading()] if self.labels else []
        return "\n".join([*heading, *self.lines()])


def _items(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _single_label(row: Bucket) -> str:
    if row.low is None:
        return f"      < {'' if row.high is None else row.high + 1}"
    return f"     >= {row.low}" if row.high is None else f"        {row.low}"


def _checked(counts: Sequence[int]) -> Sequence[int]:
    if any(count < 0 for count in counts):
        raise InvalidValue("a histogram cannot have counted a value less than 0 times")
    return counts


def log2(
    counts: Sequence[int], *, negative: int = 0, unit: str = "value", labels: Mapping[str, object] | None = None
) -> Histogram:
    """A histogram of powers of two: `counts[0]` counts zeros, `counts[i]` values from 2**(i-1) to 2**i - 1."""
    buckets = [Bucket(None, -1, negative)]
    buckets += (Bucket((1 << i) >> 1, max((1 << i) - 1, 0), count) for i, count in enumerate(_checked([*counts])))
    return Histogram(tuple(buckets), unit, "log2", dict(labels or {}))


def linear(
    counts: Sequence[int],
    *,
    start: int = 0,
    step: int = 1,
    below: int = 0,
    above: int = 0,
    unit: str = "value",
    labels: Mapping[str, object] | None = None,
) -> Histogram:
    """A histogram of equal steps: `counts[i]` counts values from `start + i * step` on; the rest is below or above."""
    if step < 1:
        raise InvalidValue(f"the step of a linear histogram is at least 1, not {step}")
    end = start + step * len(counts)
    buckets = [Bucket(None, start - 1, below)]
    buckets += (Bucket(start + i * step, start + (i + 1) * step - 1, count) for i, count in enumerate(_checked(counts)))
    buckets.append(Bucket(end, None, above))
    return Histogram(tuple(buckets), unit, "linear", dict(labels or {}))


def log_linear(
    counts: Sequence[int],
    *,
    bits: int,
    negative: int = 0,
    unit: str = "value",
    labels: Mapping[str, object] | None = None,
) -> Histogram:
    """A histogram that splits each power of two in `2**bits` equal parts.

    `counts[v]` counts the value v up to `2**bits - 1`. After these come the parts of the powers from `2**bits` on,
    `2**bits` parts each: value v, whose highest bit is e, is in part `(v >> (e - bits)) - 2**bits` of power e.
    """
    parts = 1 << bits
    buckets = [Bucket(None, -1, negative)]
    for index, count in enumerate(_checked(counts)):
        power, part = divmod(index, parts)
        shift = max(power - 1, 0)
        low = part if power == 0 else (parts + part) << shift
        buckets.append(Bucket(low, low + (1 << shift) - 1, count))
    return Histogram(tuple(buckets), unit, "log-linear", dict(labels or {}))
