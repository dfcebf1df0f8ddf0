"""The aggregations of bpftrace: what their functions add in a probe, and what comes of all processors' parts.

They are those of `pyebpf.aggregations` wherever these read the same: counters and histograms of equal steps do; a sum
is as signed as what it adds, and an average is rounded to zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.aggregations.aggregation_type import AggregationType, add_cell
from pyebpf.aggregations.buckets import bit_length, count_bucket, filled
from pyebpf.aggregations.counters import Counter
from pyebpf.aggregations.extremes import keep_extreme, note_presence
from pyebpf.aggregations.linear import Linear
from pyebpf.bpftrace.histograms import log2_borders
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.integers import Int
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.dataclass import dataclass
from pyebpf.output.histogram import Bucket, Histogram
from pyebpf.types import S64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.bpftrace.value_types import Aggregate
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

_TOP, _ALL = 1 << 63, (1 << 64) - 1


def _read(word: int, *, signed: bool) -> int:
    """A sum, modulo 2^64, as a number."""
    word &= _ALL
    return word - (1 << 64) if signed and word & _TOP else word


class Sum(AggregationType[int]):
    """The sum of values."""

    name = "a sum"
    codes = "Q"

    def __init__(self, *, signed: bool) -> None:
        self._signed = signed

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        add_cell(p, place, 0, value.value)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> int:  # noqa: ARG002 - one signature for all kinds
        return _read(cells[0], signed=self._signed)


@dataclass(frozen=True, slots=True)
class Average:
    """The number of values, their sum, and the quotient rounded to zero."""

    count: int
    total: int

    @property
    def average(self) -> int:
        """The quotient; 0 of no values."""
        if not self.count:
            return 0
        return self.total // self.count if self.total >= 0 else -(-self.total // self.count)


class Averages(AggregationType[Average]):
    """`avg()` and `stats()`: two cells, count and total."""

    name = "an average"
    codes = "QQ"

    def __init__(self, *, signed: bool) -> None:
        self._signed = signed

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        add_cell(p, place, 0, p.b.const(1))
        add_cell(p, place, 8, value.value)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> Average:  # noqa: ARG002 - one signature
        return Average(cells[0], _read(cells[1], signed=self._signed))


class Extreme(AggregationType[int]):
    """`min()` and `max()`: a word in which a better value is greater, and whether there is one; else they are 0."""

    name = "an extreme"
    codes = "QQ"
    combine = (max, max)

    def __init__(self, *, greatest: bool, signed: bool) -> None:
        self._greatest, self._signed = greatest, signed

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        word = value.value
        if not self._signed:  # the form of a signed number with the same order
            word = p.b.binary(Op.XOR, word, p.b.const(_TOP - (1 << 64)))
        keep_extreme(p, place, 0, Int(word, S64), greatest=self._greatest)
        note_presence(p, place, 8)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> int:  # noqa: ARG002 - one signature for all kinds
        if not cells[1]:
            return 0
        word = cells[0] ^ (_TOP if self._greatest else _ALL ^ _TOP)
        return _read(word, signed=True) if self._signed else word ^ _TOP

    def decoded(self, p: ProgramBuilder, cells: Sequence[ir.Value]) -> ir.Value:
        """The number of two words, in a probe."""
        b, (word, present) = p.b, cells
        mask = (_TOP if self._greatest else _ALL ^ _TOP) ^ (0 if self._signed else _TOP)
        found = b.variable(hint="extreme")
        b.write(found, b.const(0))
        with b.if_(Compare(Relation.NE, present, b.const(0))):
            b.write(found, b.binary(Op.XOR, word, b.const(_read(mask, signed=True))))
        return b.read_final(found)


class Log2(AggregationType[Histogram]):
    """`hist(n, bits)`: a bucket for negative values, one for each of 0 to 2^bits - 1, 2^bits for each power of two."""

    name = "a log2 histogram"

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self.buckets = (65 - bits << bits) + 1
        self.codes = "Q" * self.buckets
        borders = [log2_borders(index, bits) for index in range(self.buckets)]
        buckets = tuple(Bucket(low, high, 0) for low, high in borders)
        self._empty = Histogram(buckets, kind="log-linear" if bits else "log2")

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        b, bits = p.b, self._bits
        index = b.variable(hint="bucket")
        with b.if_(Compare(Relation.SLT, value.value, b.const(0))):
            b.write(index, b.const(0))
        with b.else_():
            number = b.emit(Op.REFINE, value.value)
            b.assume_bounds(number, 0, b.bounds(value.value)[1])
            length = bit_length(p, number)
            if not bits:
                found = length
            else:
                # Of n bits, n above `bits`, the first `bits` + 1 tell the bucket: a shift by n - 1 - bits.
                wide = b.variable(hint="part")
                with b.if_(Compare(Relation.UGT, length, b.const(bits))):
                    shift = b.binary(Op.SUB, b.emit(Op.REFINE, length), b.const(bits + 1))
                    part = b.binary(Op.LSHR, number, b.binary(Op.AND, shift, b.const(63)))
                    b.write(wide, b.binary(Op.ADD, part, b.binary(Op.SHL, shift, b.const(bits))))
                with b.else_():
                    b.write(wide, number)
                found = b.read_final(wide)
            b.write(index, b.binary(Op.ADD, found, b.const(1)))
        count_bucket(p, place, b.read_final(index), self.buckets)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> Histogram:
        return filled(self._empty, cells, labels)


class Steps(Linear):
    """`lhist(n, least, greatest, step)`.

    A number of 2^63 and more counts as negative, as in `hist(n)`.
    """

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        super().update(p, place, Int(value.value, S64))


def aggregate(type_: Aggregate) -> AggregationType[Any]:
    """The aggregation of a map's type."""
    match type_.kind:
        case "count":
            return Counter()
        case "sum":
            return Sum(signed=type_.signed)
        case "min" | "max":
            return Extreme(greatest=type_.kind == "max", signed=type_.signed)
        case "hist":
            return Log2(type_.arguments[0])
        case "lhist":
            least, greatest, step = type_.arguments
            return Steps(least, greatest, step)
    return Averages(signed=type_.signed)
