"""Sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.aggregation_type import AggregationType, add_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir


class Total(AggregationType[int]):
    """The sum of all values, modulo 2^64 on each processor and read as s64."""

    name = "a total"
    codes = "q"

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        add_cell(p, place, 0, value.value)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> int:  # noqa: ARG002 - one signature for all kinds
        return cells[0]
