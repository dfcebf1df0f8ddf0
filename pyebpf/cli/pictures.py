"""Pictures in place of lines: heat maps and scatter plots of what a tool sees."""

from __future__ import annotations

from operator import attrgetter
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from pyebpf.cli.files import write_whole
from pyebpf.output.timestamps import Timestamps
from pyebpf.tool import EventTool, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyebpf.cli.parser import Common
    from pyebpf.output.columns import Column
    from pyebpf.output.heat_counts import Grid
    from pyebpf.output.histogram import Histogram
    from pyebpf.output.sink import Sink
    from pyebpf.tool import AnyTool


class Picture:
    """Takes events, or the histograms of intervals, as writers do, and writes them as a file at the end."""

    def __init__(self, tool: AnyTool, path: str) -> None:
        self._title, self._path = f"pyebpf {tool.name}: {tool.tracing}", path

    def begin(self) -> None:
        """Nothing stands before the first event."""

    def record(self, record: Any) -> None:
        """Take an event."""
        raise NotImplementedError

    def interval(self, items: Iterable[Histogram]) -> None:
        """Take the histograms of an interval."""
        raise NotImplementedError

    def write(self, sink: Sink) -> None:
        """Write the file. Raises InvalidValue."""
        raise NotImplementedError


def picture_of(tool: AnyTool, options: object, common: Common) -> Picture | None:
    """The picture that the options ask for."""
    if isinstance(tool, EventTool):
        if common.scatter is not None:
            return _Scatter(tool, options, common.scatter, common)
        return None if common.heatmap is None else _EventHeatMap(tool, options, common.heatmap, common)
    if isinstance(tool, SummaryTool) and common.heatmap is not None:
        return _IntervalHeatMap(tool, common.heatmap, common)
    return None


class _EventPicture(Picture):
    """A picture of single events: of the column that is `drawn`."""

    def __init__(self, tool: EventTool[..., Any, Any, Any], options: Any, path: str) -> None:
        super().__init__(tool, path)
        self._columns = tool.columns_for(options)
        column = next(column for column in self._columns if column.drawn)
        self._value: Callable[[Any], Any] = column.raw()
        self._values = column.field_name().removesuffix("_ns")
        self._time: Callable[[Any], int] = attrgetter(tool.time) if tool.time else lambda _: monotonic_ns()


class _EventHeatMap(_EventPicture):
    def __init__(self, tool: EventTool[..., Any, Any, Any], options: Any, path: str, common: Common) -> None:
        from pyebpf.output.heat_counts import EventCounts

        super().__init__(tool, options, path)
        self._counts = EventCounts(common.scale, self._values)

    def record(self, record: Any) -> None:
        value = self._value(record)
        if value is not None:
            self._counts.add(self._time(record), value)

    def write(self, sink: Sink) -> None:
        _write_heat_map(self._counts.grids(), self._title, self._counts.first, "events", self._path, sink)


class _Scatter(_EventPicture):
    def __init__(self, tool: EventTool[..., Any, Any, Any], options: Any, path: str, common: Common) -> None:
        from pyebpf.output.scatter import Points

        super().__init__(tool, options, path)
        classing: Column | None = next((column for column in self._columns if column.classes), None)
        self._class: Callable[[Any], object] | None = None if classing is None else classing.raw()
        self._points = Points(() if classing is None else classing.classes)
        self._scale = common.scale

    def record(self, record: Any) -> None:
        value = self._value(record)
        if value is None:
            return
        if self._class is None:
            self._points.add(self._time(record), value)
        else:
            self._points.add(self._time(record), value, str(self._class(record)))

    def write(self, sink: Sink) -> None:
        from pyebpf.output.scatter import scatter_plot

        points = self._points.points()
        began = _date(points[0][0]) if points else ""
        content = scatter_plot(self._points, title=self._title, scale=self._scale, began=began, values=self._values)
        write_whole(self._path, content, f"{self._points.total} events, {len(points)} of them drawn", sink)


class _IntervalHeatMap(Picture):
    def __init__(self, tool: AnyTool, path: str, common: Common) -> None:
        from pyebpf.output.heat_counts import IntervalCounts

        super().__init__(tool, path)
        assert common.interval is not None, "the parser gives one"
        self._counts = IntervalCounts(round(common.interval * 1e9))
        self._began = monotonic_ns()

    def interval(self, items: Iterable[Histogram]) -> None:
        self._counts.add(monotonic_ns() - self._began, items)

    def write(self, sink: Sink) -> None:
        _write_heat_map(self._counts.grids(), self._title, self._began, "values", self._path, sink)


def _write_heat_map(grids: list[Grid], title: str, began: int | None, noun: str, path: str, sink: Sink) -> None:
    from pyebpf.output.heatmap import heat_map

    content = heat_map(grids, title=title, began="" if began is None else _date(began), noun=noun)
    columns = len(grids[0].columns) if grids else 0
    write_whole(path, content, f"{sum(grid.total for grid in grids)} {noun} in {columns} columns", sink)


def _date(monotonic: int) -> str:
    """The date of a time of the monotonic clock, to the second."""
    return Timestamps().iso(monotonic)[:19].replace("T", " ")
