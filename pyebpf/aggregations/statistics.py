"""Count, total, least and greatest value at once."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from pyebpf.aggregations.aggregation_type import AggregationType, add_cell
from pyebpf.aggregations.extremes import extreme_of, keep_extreme
from pyebpf.dataclass import dataclass
from pyebpf.types import S64, U64, StructType
from pyebpf.types.structs import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.compiler import ir
    from pyebpf.types import Type

COUNT, TOTAL, MINIMUM, MAXIMUM = range(4)


@dataclass(frozen=True, slots=True)
class Stats:
    """`count` values with the sum `total`; the least and greatest of them.

    `minimum` and `maximum` are None where nothing was counted, and in what an interval gives: they cannot be told for
    a part of the time.
    """

    count: int
    total: int
    minimum: int | None = None
    maximum: int | None = None

    @property
    def average(self) -> float:
        """`total / count`; 0 if nothing was counted."""
        return self.total / self.count if self.count else 0.0


class StatsType(AggregationType[Stats]):
    """Four cells: count, total (as `Total`), minimum, maximum (as `Minimum`, `Maximum`)."""

    name = "a set of statistics"
    codes = "QqQQ"
    combine = (operator.add, operator.add, max, max)

    @property
    def layout(self) -> Type:
        cells = (("count", U64), ("total", S64), ("minimum", U64), ("maximum", U64))
        return StructType("stats", [(name, type_, MISSING) for name, type_ in cells])

    def update(self, p: ProgramBuilder, place: ir.Value, value: Int) -> None:
        add_cell(p, place, 8 * COUNT, p.b.const(1))
        add_cell(p, place, 8 * TOTAL, value.value)
        keep_extreme(p, place, 8 * MINIMUM, value, greatest=False)
        keep_extreme(p, place, 8 * MAXIMUM, value, greatest=True)

    def result(self, cells: Cells, labels: Mapping[str, object]) -> Stats:  # noqa: ARG002 - one signature for all kinds
        if not cells[COUNT]:
            return Stats(0, 0)
        return Stats(
            cells[COUNT],
            cells[TOTAL],
            extreme_of(cells[MINIMUM], greatest=False),
            extreme_of(cells[MAXIMUM], greatest=True),
        )

    def result_of_difference(self, cells: Cells, labels: Mapping[str, object]) -> Stats:  # noqa: ARG002 - one signature
        return Stats(cells[COUNT], cells[TOTAL])

    def difference(self, now: Cells, before: Cells) -> Cells:
        return (now[COUNT] - before[COUNT], now[TOTAL] - before[TOTAL], 0, 0)
