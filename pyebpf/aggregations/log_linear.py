"""Histograms that split each power of two in equal parts: a bounded relative error over the whole range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.aggregation_type import AggregationType
from pyebpf.aggregations.buckets import bit_length, count_bucket, filled, maybe_negative, sign
from pyebpf.compiler.ir import Op
from pyebpf.errors import InvalidValue
from pyebpf.output.histogram import Histogram, log_linear

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir

MAX_BITS = 5


class LogLinear(AggregationType[Histogram]):
    """`2**bits` buckets for each power of two, as `output.histogram.log_linear` numbers them; negatives come last."""

    name = "a log-linear histogram"

    def __init__(self, bits: int = 2, unit: str = "value") -> None:
        if not 1 <= bits <= MAX_BITS:
            raise InvalidValue(f"a log-linear histogram splits a power of two in 2**1 to 2**{MAX_BITS}, not 2**{bits}")
        self.bits = bits
        buckets = 65 - bits << bits
        self.codes = "Q" * (buckets + 1)
        self._empty = log_linear((0,) * buckets, bits=bits, unit=unit)

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        b = p.b
        # A value below 2^bits is its own bucket; of a greater one, whose highest bit is e, the upper bits + 1 bits
        # count on from bucket (e - bits) * 2^bits.
        head = b.binary(Op.OR, b.binary(Op.LSHR, value.value, b.const(self.bits)), b.const(1))
        shift = b.binary(Op.SUB, bit_length(p, head), b.const(1))
        upper = b.binary(Op.LSHR, value.value, shift)
        index = b.binary(Op.ADD, b.binary(Op.SHL, shift, b.const(self.bits)), upper)
        if maybe_negative(p, value):
            negative = sign(p, value.value)
            other = b.binary(Op.XOR, index, b.const(len(self.codes) - 1))
            index = b.binary(Op.XOR, index, b.binary(Op.AND, other, negative))
        count_bucket(p, place, index, len(self.codes))

    def result(self, cells: Cells, labels: Mapping[str, object]) -> Histogram:
        return filled(self._empty, (cells[-1], *cells[:-1]), labels)
