"""From records to messages: batches of events, the rows or histograms of an interval."""

from __future__ import annotations

import json
from collections import deque
from io import StringIO
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyebpf.live.hub import MAX_ROWS, cut, encoded_rows
from pyebpf.output.columns import TIME, Row
from pyebpf.output.sink import Sink
from pyebpf.output.writers import histogram_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyebpf.live.hub import Hub
    from pyebpf.live.pictures import EventHeat
    from pyebpf.output.columns import Column

#: Seconds between two messages of events: people read no faster.
PERIOD = 0.2
#: Seconds until the next look, if there is nothing to tell.
_LONG = 3600.0
#: Characters of an interval's histograms.
MAX_HISTOGRAMS = 1 << 18


class Events:
    """Events, of which the newest of each fifth of a second are shown, and all are counted.

    `time` gives a record's time, `iso` the date of it.
    """

    def __init__(
        self,
        hub: Hub,
        columns: Sequence[Column],
        time: Callable[[Any], int],
        iso: Callable[[int], str],
        picture: EventHeat | None = None,
    ) -> None:
        self._hub, self._row, self._time, self._iso = hub, Row(columns), time, iso
        self.fields = [TIME, *self._row.fields]
        self._pending: deque[tuple[int, Any]] = deque(maxlen=MAX_ROWS)
        self._count = 0
        self._due = 0.0
        self._picture = picture
        drawn = next((column for column in columns if column.drawn), None)
        self._value = None if drawn is None or picture is None else drawn.raw()
        self._values: list[tuple[int, int]] = []

    def add(self, record: object) -> None:
        """Take an event."""
        time = self._time(record)
        self._pending.append((time, record))
        self._count += 1
        if self._value is not None:
            value: Any = self._value(record)
            if value is not None:
                self._values.append((time, value))
        if monotonic() >= self._due:
            self.flush()

    def tick(self) -> float:
        """Tell what is due; seconds until it is to be called again."""
        if not self._count:
            return _LONG
        left = self._due - monotonic()
        if left > 0:
            return left
        self.flush()
        return _LONG

    def flush(self) -> None:
        """Tell what there is."""
        self._due = monotonic() + PERIOD
        if not self._count:
            return
        pending, count = list(self._pending), self._count
        self._pending.clear()
        self._count = 0
        rows, left_out = encoded_rows([self._iso(time), *self._row.object(record).values()] for time, record in pending)
        left_out += count - len(pending)
        self._hub.publish("events", f'{{"rows": {rows}, "left_out": {left_out}}}')
        if self._values and self._picture is not None:
            self._picture.add(self._values)
            self._values = []
            self._hub.tell("picture", version=self._picture.version)


class Intervals:
    """The counts of intervals: rows, or histograms if there are no columns."""

    def __init__(self, hub: Hub, columns: Sequence[Column]) -> None:
        self._hub, self._row = hub, Row(columns) if columns else None
        self.fields = [] if self._row is None else list(self._row.fields)

    def add(self, end: str, heading: str | None, items: Iterable[Any]) -> None:
        """Tell of the interval that ended then."""
        told = {"time": end, "heading": heading}
        if self._row is not None:
            row = self._row
            rows, left_out = encoded_rows(list(row.object(item).values()) for item in items)
            self._hub.publish("interval", f'{json.dumps(told)[:-1]}, "rows": {rows}, "left_out": {left_out}}}')
            return
        found = list(items)
        text, objects = StringIO(), StringIO()
        histogram_writer("text", Sink(text)).interval(found)
        histogram_writer("json", Sink(objects)).interval(found, end)
        kept: list[object] = []
        size = 0
        for line in objects.getvalue().splitlines():
            size += len(line)
            if size > MAX_HISTOGRAMS:
                break
            kept.append(cut(json.loads(line)))
        self._hub.publish(
            "interval", json.dumps({**told, "text": text.getvalue().strip("\n")[:MAX_HISTOGRAMS], "objects": kept})
        )
