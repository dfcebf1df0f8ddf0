"""Histograms that keep the sum of their values, too, as exporters of metrics want it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.aggregation_type import AggregationType, add_cell
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir
    from pyebpf.output.histogram import Histogram

#: The kernel's limit of a per-CPU value is 32 KiB (PCPU_MIN_UNIT_SIZE).
MAX_CELLS = (32 << 10) // 8


class WithSum(AggregationType["Histogram"]):
    """The cells of a histogram, and one for the sum: modulo 2^64 on each processor, read as s64."""

    def __init__(self, histogram: AggregationType[Histogram]) -> None:
        self._histogram = histogram
        self.name = histogram.name
        self.codes = f"{histogram.codes}q"
        if len(self.codes) > MAX_CELLS:
            raise InvalidValue(
                f"{self.name} with sums=True has at most {MAX_CELLS - 1} buckets, not {len(self.codes) - 1}"
            )

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        self._histogram.update(p, place, value)
        add_cell(p, place, 8 * len(self._histogram.codes), value.value)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> Histogram:
        found = self._histogram.result(cells[:-1], labels)
        return type(found)(found.buckets, found.unit, found.kind, found.labels, cells[-1])
