"""Pictures in place of lines: heat maps and scatter plots of what a tool sees, or of what a recording has."""

from __future__ import annotations

from operator import attrgetter
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.cli.files import write_whole
from pyebpf.output.timestamps import Timestamps
from pyebpf.tool import EventTool, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyebpf.cli.parser import Common
    from pyebpf.output.columns import Column
    from pyebpf.output.heat_counts import Grid
    from pyebpf.output.histogram import Histogram
    from pyebpf.output.sink import Sink
    from pyebpf.tool import AnyTool


class Picture:
    """Takes events, or the histograms of intervals, as writers do, and writes them as a file at the end.

    `date` gives the date of a time of the clock that the events have.
    """

    def __init__(self, title: str, path: str, date: Callable[[int], str]) -> None:
        self._title, self._path, self._date = title, path, date

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
    """The picture of a tool's run that the options ask for."""
    title = f"pyebpf {tool.name}: {tool.tracing}"
    if isinstance(tool, EventTool):
        time: Callable[[Any], int] = attrgetter(tool.time) if tool.time else lambda _: monotonic_ns()
        return event_picture(Events(title, tool.columns_for(options), time, _date), common)
    if isinstance(tool, SummaryTool):
        return interval_picture(title, common, round((common.interval or 1) * 1e9), monotonic_ns(), monotonic_ns, _date)
    return None


class Events(NamedTuple):
    """The events of a picture: its title, their columns, the functions for an event's time and for a time's date."""

    title: str
    columns: Sequence[Column]
    time: Callable[[Any], int]
    date: Callable[[int], str]


def event_picture(events: Events, common: Common) -> Picture | None:
    """The picture of events that the options ask for."""
    if common.scatter is not None:
        return _Scatter(events, common.scatter, common)
    return None if common.heatmap is None else _EventHeatMap(events, common.heatmap, common)


class _EventPicture(Picture):
    """A picture of single events: of the column that is `drawn`."""

    def __init__(self, events: Events, path: str) -> None:
        super().__init__(events.title, path, events.date)
        self._time = events.time
        column = next(column for column in events.columns if column.drawn)
        self._value: Callable[[Any], Any] = column.raw()
        self._values = column.field_name().removesuffix("_ns")


class _EventHeatMap(_EventPicture):
    def __init__(self, events: Events, path: str, common: Common) -> None:
        from pyebpf.output.heat_counts import EventCounts

        super().__init__(events, path)
        self._counts = EventCounts(common.scale, self._values)

    def record(self, record: Any) -> None:
        value = self._value(record)
        if value is not None:
            self._counts.add(self._time(record), value)

    def write(self, sink: Sink) -> None:
        first = self._counts.first
        began = "" if first is None else self._date(first)
        _write_heat_map(self._counts.grids(), self._title, began, "events", self._path, sink)


class _Scatter(_EventPicture):
    def __init__(self, events: Events, path: str, common: Common) -> None:
        from pyebpf.output.scatter import Points

        super().__init__(events, path)
        classing: Column | None = next((column for column in events.columns if column.classes), None)
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
        began = self._date(points[0][0]) if points else ""
        content = scatter_plot(self._points, title=self._title, scale=self._scale, began=began, values=self._values)
        write_whole(self._path, content, f"{self._points.total} events, {len(points)} of them drawn", sink)


def interval_picture(
    title: str, common: Common, interval: int, began: int, now: Callable[[], int], date: Callable[[int], str]
) -> Picture | None:
    """The picture of histograms that the options ask for; nanoseconds as of `_IntervalPicture`."""
    if common.bars is not None:
        return _Bars(title, common.bars, interval, began, now, date)
    return None if common.heatmap is None else _IntervalHeatMap(title, common.heatmap, interval, began, now, date)


class _IntervalPicture(Picture):
    """A picture of histograms: those of each `interval`, in nanoseconds from `began` on; `now` gives the time."""

    def __init__(
        self, title: str, path: str, interval: int, began: int, now: Callable[[], int], date: Callable[[int], str]
    ) -> None:
        from pyebpf.output.heat_counts import IntervalCounts

        super().__init__(title, path, date)
        self._counts = IntervalCounts(interval)
        self._began, self._now = began, now

    def interval(self, items: Iterable[Histogram]) -> None:
        self._counts.add(self._now() - self._began, items)


class _IntervalHeatMap(_IntervalPicture):
    """A heat map, a column for each interval."""

    def write(self, sink: Sink) -> None:
        _write_heat_map(self._counts.grids(), self._title, self._date(self._began), "values", self._path, sink)


class _Bars(_IntervalPicture):
    """Histograms side by side, of all intervals together."""

    def write(self, sink: Sink) -> None:
        from pyebpf.output.bars import bar_charts

        grids = self._counts.grids()
        content = bar_charts(grids, title=self._title, began=self._date(self._began))
        write_whole(self._path, content, f"{sum(grid.total for grid in grids)} values, histograms: {len(grids)}", sink)


def _write_heat_map(grids: list[Grid], title: str, began: str, noun: str, path: str, sink: Sink) -> None:
    from pyebpf.output.heatmap import heat_map

    content = heat_map(grids, title=title, began=began, noun=noun)
    columns = len(grids[0].columns) if grids else 0
    where = f"{columns} column{'' if columns == 1 else 's'}"
    write_whole(path, content, f"{sum(grid.total for grid in grids)} {noun} in {where}", sink)


def _date(monotonic: int) -> str:
    """The date of a time of the monotonic clock, to the second."""
    return Timestamps().iso(monotonic)[:19].replace("T", " ")
