"""Code that histograms share: the number of a value's bits without a branch, the bucket to count, the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.aggregation_type import add_cell
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.output.histogram import Bucket, Histogram
from pyebpf.types import S64, U64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir

#: bit_length of 0 to 15, four bits each, 0's lowest.
_BIT_LENGTHS = sum(number.bit_length() << 4 * number for number in range(16))


def bit_length(p: ProgramBuilder, value: ir.Value) -> ir.Value:
    """Return how many bits a number read as u64 has: 0 for 0, else 1 to 64.

    Without a branch: verifiers follow each way of a branch, and six tests in a row would have 64. Each step halves
    the bits still looked at and adds its half; the last four bits are looked up in a constant.
    """
    b = p.b
    low, high = b.bounds(value)
    found: ir.Value | None = None
    for power in (5, 4, 3, 2):
        half = 1 << power
        if low >= 0 and high < 1 << half:
            continue
        # The upper half is below 2^63, so its negative has the top bit set unless it is 0.
        upper = b.binary(Op.LSHR, value, b.const(half))
        any_set = b.binary(Op.LSHR, b.emit(Op.NEG, upper), b.const(63))
        step = b.binary(Op.SHL, any_set, b.const(power))
        value = b.binary(Op.LSHR, value, step)
        # Steps have no bit in common. Of a sum Linux 6.1's verifier knows the bounds, of other operations on two
        # numbers nothing.
        found = step if found is None else b.binary(Op.ADD, found, step)
    place = b.binary(Op.SHL, value, b.const(2))
    last = b.binary(Op.AND, b.binary(Op.LSHR, b.const(_BIT_LENGTHS), place), b.const(7))
    return last if found is None else b.binary(Op.ADD, found, last)


def maybe_negative(p: ProgramBuilder, value: Int) -> bool:
    """Whether a number may be below 0, by its type and by what is known of it here."""
    return value.type != U64 and p.b.bounds(value.value)[0] < 0


def sign(p: ProgramBuilder, value: ir.Value) -> ir.Value:
    """Return all ones for a number that is negative as s64, else 0."""
    return p.b.binary(Op.ASHR, value, p.b.const(63))


def signed(p: ProgramBuilder, value: Int) -> ir.Value:
    """Return a number as s64; a u64 from 2^63 on as the greatest s64."""
    if value.type != U64 or p.b.bounds(value.value)[0] >= 0:
        return value.value
    top = sign(p, value.value)
    return p.b.binary(Op.AND, p.b.binary(Op.OR, value.value, top), p.b.const(S64.maximum))


def count_bucket(p: ProgramBuilder, place: ir.Value, index: ir.Value, count: int) -> None:
    """Add 1 to bucket `index` of `count`, which it is always below: the check shows that to verifiers."""
    b = p.b
    with b.if_(Compare(Relation.ULT, index, b.const(count))):
        bounded = b.emit(Op.REFINE, index)
        bucket = b.emit(Op.OFFSET, place, b.binary(Op.SHL, bounded, b.const(3)))
        add_cell(p, bucket, 0, b.const(1))


def filled(empty: Histogram, counts: Sequence[int], labels: Mapping[str, object]) -> Histogram:
    """Return a histogram of these counts.

    Most buckets of most keys stay empty, and buckets never change: those are shared with `empty`.
    """
    buckets = list(empty.buckets)
    for index, count in enumerate(counts):
        if count:
            bucket = buckets[index]
            buckets[index] = Bucket(bucket.low, bucket.high, count)
    return Histogram(tuple(buckets), empty.unit, empty.kind, labels)
