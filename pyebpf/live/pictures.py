"""Pictures of a run as it grows, of all of it or of its last seconds: heat maps and flame graphs, in constant memory.

The tracer's thread adds; the server's thread draws, and holds the lock only as long as it takes to copy.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyebpf.output.flamegraph import flame_graph
from pyebpf.output.heat_counts import EventCounts, IntervalCounts
from pyebpf.output.heatmap import heat_map
from pyebpf.output.stacks import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyebpf.output.flamegraph import Palette
    from pyebpf.output.heat_counts import Grid
    from pyebpf.output.histogram import Histogram
    from pyebpf.output.stacks import Stack

#: Events, intervals, and things in intervals (histograms, stacks) that pictures of the last seconds are drawn of.
MAX_EVENTS, MAX_INTERVALS, MAX_THINGS = 100_000, 3600, 100_000
#: Different stacks of the whole run; further ones are one box.
MAX_STACKS, OTHERS = 50_000, ("[other stacks]",)
#: Boxes of a flame graph, which a browser draws again each interval.
MAX_BOXES = 4000
_SECOND = 10**9


class Picture:
    """A picture that grows. `version` counts its changes; `svg` draws it, once for all who ask for the same.

    Times are of one clock of nanoseconds; `date` shows them.
    """

    def __init__(self, title: str, date: Callable[[int], str]) -> None:
        self.title, self._date = title, date
        self.version = 0
        self._lock = Lock()
        self._drawn: dict[int | None, tuple[int, str]] = {}

    def svg(self, last: int | None = None) -> str:
        """The document, of the last seconds if they are given."""
        version, drawn = self._drawn.get(last, (-1, ""))
        if version != self.version:
            if len(self._drawn) >= 16:
                self._drawn.clear()
            version = self.version
            drawn = self._draw(last)
            self._drawn[last] = version, drawn
        return drawn

    def _draw(self, last: int | None) -> str:
        raise NotImplementedError


class EventHeat(Picture):
    """A heat map of events' times: of those of the last seconds, the newest MAX_EVENTS."""

    def __init__(self, title: str, date: Callable[[int], str], values: str = "") -> None:
        super().__init__(title, date)
        self._values = values
        self._all = EventCounts("log", values)
        self._events: deque[tuple[int, int]] = deque(maxlen=MAX_EVENTS)

    def add(self, events: Sequence[tuple[int, int]]) -> None:
        """Add events: when, and how long."""
        with self._lock:
            self._events.extend(events)
            for time, value in events:
                self._all.add(time, value)
            self.version += 1

    def _draw(self, last: int | None) -> str:
        if last is None:
            with self._lock:
                grids, first = self._all.grids(), self._all.first
        else:
            with self._lock:
                events = list(self._events)
            since = events[-1][0] - last * _SECOND if events else 0
            counts = EventCounts("log", self._values)
            for time, value in events:
                if time >= since:
                    counts.add(time, value)
            grids, first = counts.grids(), counts.first
        began = "" if first is None else self._date(first)
        return heat_map(grids, title=self.title, began=began, noun="events")


class _Intervals(Picture):
    """A picture of what intervals counted."""

    def __init__(self, title: str, date: Callable[[int], str]) -> None:
        super().__init__(title, date)
        self._kept: deque[tuple[int, Any]] = deque()
        self._things = 0

    def _keep(self, end: int, things: Any) -> None:
        self._kept.append((end, things))
        self._things += len(things) + 1
        while len(self._kept) > 1 and (len(self._kept) > MAX_INTERVALS or self._things > MAX_THINGS):
            self._things -= len(self._kept.popleft()[1]) + 1
        self.version += 1

    def _newest(self, last: int) -> list[tuple[int, Any]]:
        with self._lock:
            kept = list(self._kept)
        # The end of an interval is a little late.
        since = kept[-1][0] - last * _SECOND + _SECOND // 10 if kept else 0
        return [each for each in kept if each[0] > since]


class IntervalHeat(_Intervals):
    """A heat map of the histograms of intervals, in nanoseconds, from `began` on."""

    def __init__(self, title: str, date: Callable[[int], str], interval: int, began: int) -> None:
        super().__init__(title, date)
        self._interval, self._began = interval, began
        self._all = IntervalCounts(interval)

    def add(self, end: int, histograms: Sequence[Histogram]) -> None:
        """Add the histograms of the interval that ended then."""
        with self._lock:
            self._all.add(end - self._began, histograms)
            self._keep(end, histograms)

    def _draw(self, last: int | None) -> str:
        began = self._began
        grids: list[Grid]
        if last is None:
            with self._lock:
                grids = self._all.grids()
        else:
            newest = self._newest(last)
            if newest:
                began += max((newest[0][0] - began) // self._interval - 1, 0) * self._interval
            counts = IntervalCounts(self._interval)
            for end, histograms in newest:
                counts.add(end - began, histograms)
            grids = counts.grids()
        return heat_map(grids, title=self.title, began=self._date(began), noun="values")


class Flames(_Intervals):
    """A flame graph of the stacks of intervals, in `unit`."""

    def __init__(self, title: str, date: Callable[[int], str], unit: str, palette: Palette = "samples") -> None:
        super().__init__(title, date)
        self._unit, self._palette = unit, palette
        self._all: dict[tuple[str, ...], int] = {}

    def add(self, end: int, stacks: Iterable[Stack]) -> None:
        """Add the stacks of the interval that ended then."""
        folded = fold(stacks, annotated=True)
        with self._lock:
            _add(self._all, folded)
            self._keep(end, folded)

    def _draw(self, last: int | None) -> str:
        if last is None:
            with self._lock:
                counts = dict(self._all)
            words = "from the beginning"
        else:
            counts = {}
            newest = self._newest(last)
            for _, folded in newest:
                _add(counts, folded)
            words = f"the last {last} s" if newest else ""
        return flame_graph(
            counts,
            title=f"{self.title}{words and f', {words}'}",
            unit=self._unit,
            inverted=True,
            max_boxes=MAX_BOXES,
            palette=self._palette,
        )


def _add(to: dict[tuple[str, ...], int], counts: Mapping[tuple[str, ...], int]) -> None:
    for stack, count in counts.items():
        key = stack if stack in to or len(to) < MAX_STACKS else OTHERS
        to[key] = to.get(key, 0) + count
