"""Functions that declare an aggregation, with and without a key.

`size` is how many keys there can be. The kernel reserves their memory, for every possible processor, when the program
is loaded: 528 bytes a key and processor for a log2 histogram, 8 for a counter. Keys that find no room are counted as
dropped. A program has few kinds: each is imported when it is declared. With `sums` a histogram keeps the sum of its
values, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from pyebpf.aggregations.declared import (
    KeyedCounter,
    KeyedExtreme,
    KeyedHistogram,
    KeyedStats,
    KeyedTotal,
    SingleCounter,
    SingleExtreme,
    SingleHistogram,
    SingleStats,
    SingleTotal,
)

if TYPE_CHECKING:
    from pyebpf.aggregations.aggregation_type import AggregationType
    from pyebpf.output.histogram import Histogram

K = TypeVar("K")

#: Keys by default: half a megabyte a processor for log2 histograms, 80 kB for counters.
HISTOGRAM_KEYS = 1024
NUMBER_KEYS = 10_240


def _histogram(
    kind: AggregationType[Histogram],
    key: type | tuple[Any, ...] | None,
    size: int,
    name: str,
    label: str,
    *,
    sums: bool,
) -> SingleHistogram | KeyedHistogram[Any]:
    """A histogram of a kind, with or without a key, and with the sum of its values if `sums`."""
    if sums:
        from pyebpf.aggregations.sums import WithSum

        kind = WithSum(kind)
    return SingleHistogram(kind, name) if key is None else KeyedHistogram(kind, key, size, name, label)


@overload
def log2_hist(
    *, key: None = None, unit: str = ..., label: str = ..., size: int = ..., name: str = ..., sums: bool = ...
) -> SingleHistogram: ...
@overload
def log2_hist(
    *, key: type[K], unit: str = ..., label: str = ..., size: int = ..., name: str = ..., sums: bool = ...
) -> KeyedHistogram[K]: ...
@overload
def log2_hist(
    *, key: tuple[Any, ...], unit: str = ..., label: str = ..., size: int = ..., name: str = ..., sums: bool = ...
) -> KeyedHistogram[tuple[Any, ...]]: ...
def log2_hist(
    *,
    key: type | tuple[Any, ...] | None = None,
    unit: str = "value",
    label: str = "",
    size: int = HISTOGRAM_KEYS,
    name: str = "",
    sums: bool = False,
) -> SingleHistogram | KeyedHistogram[Any]:
    """A histogram of powers of two, with a bucket of its own for zeros and one for all negative values."""
    from pyebpf.aggregations.log2 import Log2

    return _histogram(Log2(unit), key, size, name, label, sums=sums)


@overload
def linear_hist(
    start: int,
    stop: int,
    step: int = ...,
    *,
    key: None = None,
    unit: str = ...,
    label: str = ...,
    size: int = ...,
    name: str = ...,
    sums: bool = ...,
) -> SingleHistogram: ...
@overload
def linear_hist(
    start: int,
    stop: int,
    step: int = ...,
    *,
    key: type[K],
    unit: str = ...,
    label: str = ...,
    size: int = ...,
    name: str = ...,
    sums: bool = ...,
) -> KeyedHistogram[K]: ...
@overload
def linear_hist(
    start: int,
    stop: int,
    step: int = ...,
    *,
    key: tuple[Any, ...],
    unit: str = ...,
    label: str = ...,
    size: int = ...,
    name: str = ...,
    sums: bool = ...,
) -> KeyedHistogram[tuple[Any, ...]]: ...
def linear_hist(
    start: int,
    stop: int,
    step: int = 1,
    *,
    key: type | tuple[Any, ...] | None = None,
    unit: str = "value",
    label: str = "",
    size: int = HISTOGRAM_KEYS,
    name: str = "",
    sums: bool = False,
) -> SingleHistogram | KeyedHistogram[Any]:
    """A histogram of equal steps from `start` (included) to `stop` (not), and what lies below and above.

    At most 4094 steps: InvalidValue.
    """
    from pyebpf.aggregations.linear import Linear

    return _histogram(Linear(start, stop, step, unit), key, size, name, label, sums=sums)


@overload
def log_linear_hist(
    bits: int = ...,
    *,
    key: None = None,
    unit: str = ...,
    label: str = ...,
    size: int = ...,
    name: str = ...,
    sums: bool = ...,
) -> SingleHistogram: ...
@overload
def log_linear_hist(
    bits: int = ...,
    *,
    key: type[K],
    unit: str = ...,
    label: str = ...,
    size: int = ...,
    name: str = ...,
    sums: bool = ...,
) -> KeyedHistogram[K]: ...
@overload
def log_linear_hist(
    bits: int = ...,
    *,
    key: tuple[Any, ...],
    unit: str = ...,
    label: str = ...,
    size: int = ...,
    name: str = ...,
    sums: bool = ...,
) -> KeyedHistogram[tuple[Any, ...]]: ...
def log_linear_hist(
    bits: int = 2,
    *,
    key: type | tuple[Any, ...] | None = None,
    unit: str = "value",
    label: str = "",
    size: int = HISTOGRAM_KEYS,
    name: str = "",
    sums: bool = False,
) -> SingleHistogram | KeyedHistogram[Any]:
    """A histogram that splits each power of two in `2**bits` equal buckets (1 to 5 bits; 2 kB a value for 2 bits)."""
    from pyebpf.aggregations.log_linear import LogLinear

    return _histogram(LogLinear(bits, unit), key, size, name, label, sums=sums)


@overload
def counter(*, key: None = None, label: str = ..., size: int = ..., name: str = ...) -> SingleCounter: ...
@overload
def counter(*, key: type[K], label: str = ..., size: int = ..., name: str = ...) -> KeyedCounter[K]: ...
@overload
def counter(
    *, key: tuple[Any, ...], label: str = ..., size: int = ..., name: str = ...
) -> KeyedCounter[tuple[Any, ...]]: ...
def counter(
    *, key: type | tuple[Any, ...] | None = None, label: str = "", size: int = NUMBER_KEYS, name: str = ""
) -> SingleCounter | KeyedCounter[Any]:
    """A count: `add()` counts one, `add(n)` n."""
    from pyebpf.aggregations.counters import Counter

    kind = Counter()
    return SingleCounter(kind, name) if key is None else KeyedCounter(kind, key, size, name, label)


@overload
def total(*, key: None = None, label: str = ..., size: int = ..., name: str = ...) -> SingleTotal: ...
@overload
def total(*, key: type[K], label: str = ..., size: int = ..., name: str = ...) -> KeyedTotal[K]: ...
@overload
def total(
    *, key: tuple[Any, ...], label: str = ..., size: int = ..., name: str = ...
) -> KeyedTotal[tuple[Any, ...]]: ...
def total(
    *, key: type | tuple[Any, ...] | None = None, label: str = "", size: int = NUMBER_KEYS, name: str = ""
) -> SingleTotal | KeyedTotal[Any]:
    """The sum of the values, modulo 2^64 on each processor and read as s64."""
    from pyebpf.aggregations.totals import Total

    kind = Total()
    return SingleTotal(kind, name) if key is None else KeyedTotal(kind, key, size, name, label)


@overload
def minimum(*, key: None = None, label: str = ..., size: int = ..., name: str = ...) -> SingleExtreme: ...
@overload
def minimum(*, key: type[K], label: str = ..., size: int = ..., name: str = ...) -> KeyedExtreme[K]: ...
@overload
def minimum(
    *, key: tuple[Any, ...], label: str = ..., size: int = ..., name: str = ...
) -> KeyedExtreme[tuple[Any, ...]]: ...
def minimum(
    *, key: type | tuple[Any, ...] | None = None, label: str = "", size: int = NUMBER_KEYS, name: str = ""
) -> SingleExtreme | KeyedExtreme[Any]:
    """The least value, an s64; a u64 from 2^63 on counts as 2^63 - 1."""
    from pyebpf.aggregations.extremes import Minimum

    kind = Minimum()
    return SingleExtreme(kind, name) if key is None else KeyedExtreme(kind, key, size, name, label)


@overload
def maximum(*, key: None = None, label: str = ..., size: int = ..., name: str = ...) -> SingleExtreme: ...
@overload
def maximum(*, key: type[K], label: str = ..., size: int = ..., name: str = ...) -> KeyedExtreme[K]: ...
@overload
def maximum(
    *, key: tuple[Any, ...], label: str = ..., size: int = ..., name: str = ...
) -> KeyedExtreme[tuple[Any, ...]]: ...
def maximum(
    *, key: type | tuple[Any, ...] | None = None, label: str = "", size: int = NUMBER_KEYS, name: str = ""
) -> SingleExtreme | KeyedExtreme[Any]:
    """The greatest value, an s64; a u64 from 2^63 on counts as 2^63 - 1."""
    from pyebpf.aggregations.extremes import Maximum

    kind = Maximum()
    return SingleExtreme(kind, name) if key is None else KeyedExtreme(kind, key, size, name, label)


@overload
def stats(*, key: None = None, label: str = ..., size: int = ..., name: str = ...) -> SingleStats: ...
@overload
def stats(*, key: type[K], label: str = ..., size: int = ..., name: str = ...) -> KeyedStats[K]: ...
@overload
def stats(
    *, key: tuple[Any, ...], label: str = ..., size: int = ..., name: str = ...
) -> KeyedStats[tuple[Any, ...]]: ...
def stats(
    *, key: type | tuple[Any, ...] | None = None, label: str = "", size: int = NUMBER_KEYS, name: str = ""
) -> SingleStats | KeyedStats[Any]:
    """Count, total, least and greatest value: `Stats`."""
    from pyebpf.aggregations.statistics import StatsType

    kind = StatsType()
    return SingleStats(kind, name) if key is None else KeyedStats(kind, key, size, name, label)
