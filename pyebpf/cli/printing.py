"""A tool's records as it prints them, and as `show` does: lines of events, summaries, and both in turn."""

from __future__ import annotations

from itertools import islice
from operator import attrgetter
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from pyebpf.output.columns import TIME, Column, plain
from pyebpf.output.escape import visible
from pyebpf.output.timestamps import Timestamps
from pyebpf.output.writers import histogram_writer, json_line, table_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyebpf.cli.parser import Common
    from pyebpf.output.sink import Sink
    from pyebpf.output.stacks import Stack
    from pyebpf.output.timestamps import Dates
    from pyebpf.output.writers import Format, Intervals


class Unrecorded:
    """Gives the times with which records are printed. A `Recorder`, which inherits from it, keeps the records, too.

    Times are those that `stamps` understands.
    """

    is_recording = False

    def __init__(self) -> None:
        self.stamps: Timestamps | Dates = Timestamps()

    def time_of(self, attribute: str) -> Callable[[object], int]:
        """The function that gives a record's time, by an attribute of the record; without one it is now."""
        return attrgetter(attribute) if attribute else lambda _: monotonic_ns()

    def events(self, records: Iterator[Any], attribute: str) -> Iterator[Any]:  # noqa: ARG002 - for a recorder
        """Take note of events as they come."""
        return records

    def interval(self, end: int, heading: str | None, items: Iterable[Any]) -> Iterable[Any]:  # noqa: ARG002 - as above
        """Take note of an interval, of which nothing was printed yet."""
        return items

    def stacks(self, end: int, stacks: Sequence[Stack]) -> None:
        """Take note of stacks."""

    def dropped(self, totals: Mapping[str, int]) -> int:  # noqa: ARG002 - as above
        """Take note of what was dropped so far; the time of that."""
        return self.stamps.now()

    def footer(self, lines: Iterable[str]) -> Iterable[str]:
        """Take note of the last lines of text."""
        return lines


def table_form(common: Common) -> Format:
    """The format of records and histograms."""
    assert common.form != "folded", "only stack tools have that option"
    return common.form


def write_dropped(sink: Sink, time: str, totals: Mapping[str, int]) -> None:
    """Write drops as an object of their own: the time, and `dropped`, totals by reason."""
    sink.write(json_line({TIME: time, "dropped": plain(totals)}))


def write_footer(sink: Sink, lines: Iterable[str]) -> None:
    """Write the last lines of text, in which names may stand that somebody chose."""
    for line in lines:
        sink.line("\t".join(map(visible, line.split("\t"))))


class Lines:
    """Writes events as they happen: by columns, below a heading, or as sentences."""

    def __init__(
        self,
        columns: Sequence[Column],
        sentence: Callable[[Any], str] | None,
        time: Callable[[Any], int],
        stamps: Timestamps | Dates,
        common: Common,
        sink: Sink,
    ) -> None:
        form = table_form(common)
        self._heading = sentence is None or form != "text"
        if form != "text":
            self._writer = table_writer(form, columns, sink)
            write = self._writer.record
            self.record: Callable[[object], None] = lambda record: write(record, stamps.iso(time(record)))
            return
        clock = Column("TIME", 8, key=lambda record: stamps.clock(time(record)))
        shown = [clock if column.field_name() == TIME else column for column in columns]
        if common.timestamps and clock not in shown:
            shown.insert(0, clock)
        if sentence is not None:
            shown = [*(column for column in shown if column is clock), Column("", key=sentence, field="text")]
        self._writer = table_writer(form, shown, sink)
        self.record = self._writer.record

    def begin(self) -> None:
        """Write what stands before the first event."""
        if self._heading:
            self._writer.begin()


class Summaries:
    """Writes a summary at the end of each interval, and between two the lines of events, if there are any.

    `new_lines` makes the writer of those lines. `clear` is written above a screen.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        stamps: Timestamps | Dates,
        common: Common,
        sink: Sink,
        *,
        screen: bool,
        clear: str = "",
        new_lines: Callable[[], Lines] | None = None,
    ) -> None:
        self._columns, self._stamps, self._common, self._sink = columns, stamps, common, sink
        self._screen, self._clear, self._new_lines = screen, clear, new_lines
        self._form = table_form(common)
        self._writer, self._printed = self._new_writer(), False
        self._lines: Lines | None = None

    def event(self, record: object) -> None:
        """Write an event."""
        if self._lines is None:
            assert self._new_lines is not None
            if self._printed:
                self._separate()
            self._lines = self._new_lines()
            self._lines.begin()
        self._lines.record(record)

    def interval(self, items: Iterable[Any], end: int, heading: str | None) -> None:
        """Write one summary."""
        if self._lines is not None:
            self._lines = None
            self._separate()
            self._writer = self._new_writer()
        if self._form != "text":
            self._writer.interval(items, self._stamps.iso(end))
        else:
            above = [self._stamps.clock(end)] if self._common.timestamps or self._screen else []
            if heading is not None:
                above.append(visible(heading))
            if self._screen:
                self._sink.write(self._clear)
                items = islice(items, self._common.rows)
            self._writer.interval(items, " ".join(above) if above else None)
        self._printed = True

    def _new_writer(self) -> Intervals[Any]:
        form, sink = self._form, self._sink
        return table_writer(form, self._columns, sink) if self._columns else histogram_writer(form, sink)

    def _separate(self) -> None:
        """End a table: of CSV, events and summaries each begin one of their own where they meet, with its heading."""
        if self._form == "csv":
            self._sink.line("")
