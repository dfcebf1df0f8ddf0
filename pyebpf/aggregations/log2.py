"""Histograms of powers of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.aggregation_type import AggregationType
from pyebpf.aggregations.buckets import bit_length, count_bucket, filled, maybe_negative
from pyebpf.compiler.ir import Op
from pyebpf.output.histogram import Histogram, log2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir

#: Bucket 0 counts zeros, bucket i values from 2^(i-1) to 2^i - 1, the last one negative values.
NEGATIVE = 65
BUCKETS = 66


class Log2(AggregationType[Histogram]):
    """A bucket for zeros, one for each power of two, one for all negative values."""

    name = "a log2 histogram"
    codes = "Q" * BUCKETS

    def __init__(self, unit: str = "value") -> None:
        self._empty = log2((0,) * NEGATIVE, unit=unit)

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        index = bit_length(p, value.value)
        if maybe_negative(p, value):
            # A negative number read as u64 has 64 bits: one more is the last bucket.
            index = p.b.binary(Op.ADD, index, p.b.binary(Op.LSHR, value.value, p.b.const(63)))
        count_bucket(p, place, index, BUCKETS)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> Histogram:
        return filled(self._empty, (cells[NEGATIVE], *cells[:NEGATIVE]), labels)
