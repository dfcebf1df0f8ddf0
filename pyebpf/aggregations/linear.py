"""Histograms of equal steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.aggregation_type import AggregationType
from pyebpf.aggregations.buckets import count_bucket, filled, signed
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.errors import InvalidValue
from pyebpf.output.histogram import Histogram, linear
from pyebpf.types import S64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir

#: The kernel's limit of a per-CPU value is 32 KiB (PCPU_MIN_UNIT_SIZE); two buckets are for what lies outside.
MAX_STEPS = (32 << 10) // 8 - 2


class Linear(AggregationType[Histogram]):
    """Bucket 0 counts what is below `start`, then come the steps up to `stop`, the last bucket counts the rest.

    If `step` does not divide the range, the last step ends above `stop`.
    """

    name = "a linear histogram"

    def __init__(self, start: int, stop: int, step: int = 1, unit: str = "value") -> None:
        if step < 1:
            raise InvalidValue(f"a linear histogram has a step of at least 1, not {step}")
        if stop <= start:
            raise InvalidValue(f"a linear histogram from {start} to {stop} has no buckets: stop must be above start")
        self.start = start
        self.step = step
        self.steps = -(-(stop - start) // step)
        if self.steps > MAX_STEPS:
            raise InvalidValue(
                f"a linear histogram of {self.steps} steps is too large: at most {MAX_STEPS} fit a per-CPU value"
            )
        self.stop = start + self.steps * step
        if start < S64.minimum or self.stop > S64.maximum:
            raise InvalidValue(f"a linear histogram from {start} to {self.stop} leaves the range of s64")
        self._empty = linear((0,) * self.steps, start=start, step=step, unit=unit)
        self.codes = "Q" * (self.steps + 2)

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        b = p.b
        number = signed(p, value)
        # Modulo 2^64: whatever lies outside is at least as far from the start as the end is.
        distance = b.binary(Op.SUB, number, b.const(self.start)) if self.start else number
        index = b.variable(hint="bucket")
        with b.if_(Compare(Relation.ULT, distance, b.const(self.stop - self.start))):
            inside = b.emit(Op.REFINE, distance)
            if self.step & (self.step - 1) == 0:
                step = b.binary(Op.LSHR, inside, b.const(self.step.bit_length() - 1)) if self.step > 1 else inside
            else:
                step = b.binary(Op.UDIV, inside, b.const(self.step))
            b.write(index, b.binary(Op.ADD, step, b.const(1)))
        with b.else_():
            above = b.emit(Op.COMPARE, number, b.const(self.start), condition=Relation.SGE)
            b.write(index, b.binary(Op.MUL, above, b.const(self.steps + 1)))
        found = b.read_final(index)
        count_bucket(p, place, found, self.steps + 2)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> Histogram:
        return filled(self._empty, cells, labels)
