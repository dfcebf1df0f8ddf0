"""A recording as Python sees it: `pyebpf.open_recording(FILE)`."""

from __future__ import annotations

from collections import namedtuple
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pyebpf.output.columns import TIME
from pyebpf.output.histogram import Histogram
from pyebpf.output.stacks import names
from pyebpf.recording.entries import Dropped, End, Event, Interval, Stacks
from pyebpf.recording.frames import pandas_frame, polars_frame, write_parquet
from pyebpf.recording.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyebpf.output.stacks import Stack
    from pyebpf.recording.reader import Header
    from pyebpf.recording.tables import Table


def open_recording(path: str) -> Recording:
    """A recording that a tool wrote with `--record`. Raises MalformedData for a file that is none, and OSError."""
    return Recording(path)


class Recording:
    """The records of a recording, and what its file says of them. It is read anew by each loop, a block at a time.

    `tool`, `version`, `arguments` and `kernel` say what was run and where, `start` when, `kind` is "events", "summary"
    or "stacks". After a loop `damage` says up to where the file could be read, "" if there was nothing wrong; `dropped`
    has the totals of what the tool dropped, and `end` how it ended, None if it did not: it was killed, or still runs.

    Times are integers, nanoseconds since 1970 (UTC).
    """

    def __init__(self, path: str) -> None:
        self._reader = Reader(path)
        header = self._reader.header
        self.tool, self.version, self.kernel = header.tool, header.version, header.kernel
        self.arguments, self.kind = header.arguments, header.kind
        self.start = datetime.fromtimestamp(header.start // 10**9, timezone(timedelta(seconds=header.zone)))
        self.dropped: dict[str, int] = {}
        self.end: End | None = None

    @property
    def damage(self) -> str:
        """The damage of the file, and at which byte it is; known after a loop."""
        return self._reader.damage

    @property
    def fields(self) -> dict[str, str | None]:
        """The fields of records, each with its unit, None where it has none or its name does not tell it."""
        table = self._reader.header.events if self.kind == "events" else self._reader.header.summary
        return {TIME: "ns"} | ({} if table is None else {name: _unit(table, name) for name in table.fields})

    def __iter__(self) -> Iterator[Any]:
        """The records: events and rows as named tuples, whose first field is the time, histograms, or stacks.

        For histograms with their times, see `intervals`.
        """
        if self.kind == "events":
            yield from self.events()
        elif self.kind == "stacks":
            yield from self.stacks()
        else:
            for interval in self.intervals():
                yield from interval.items

    def events(self) -> Iterator[Any]:
        """The events, named tuples: of an event tool, and of a summary tool that prints lines of events, too."""
        table = self._reader.header.events
        if table is not None:
            make = _maker("Event", table)
            for entry in self._entries():
                if isinstance(entry, Event):
                    yield make(entry.time, entry.values)

    def intervals(self) -> Iterator[Interval]:
        """The intervals of a summary tool, each with its rows, named tuples, or `Histogram` objects."""
        table = self._reader.header.summary
        make = None if table is None else _maker("Row", table)
        for entry in self._entries():
            if isinstance(entry, Interval):
                items = entry.items if make is None else [make(entry.time, item) for item in entry.items]
                yield Interval(entry.time, entry.heading, items)

    def stacks(self) -> Iterator[Stack]:
        """The stacks of a stack tool."""
        for entry in self._entries():
            if isinstance(entry, Stacks):
                yield from entry.items

    def rows(self) -> Iterator[dict[str, Any]]:
        """The records as dictionaries of one level: a bucket of a histogram is one, and a stack is folded."""
        if self.kind == "events":
            yield from (record._asdict() for record in self.events())
        elif self.kind == "stacks":
            for entry in self._entries():
                if isinstance(entry, Stacks):
                    yield from (stack_row(entry.time, stack) for stack in entry.items)
        else:
            for interval in self.intervals():
                for item in interval.items:
                    if isinstance(item, Histogram):
                        yield from bucket_rows(interval.time, item)
                    else:
                        yield item._asdict()

    def pandas(self) -> Any:
        """The `rows` as a pandas.DataFrame, times as datetime64[ns]. Raises ImportError without pandas."""
        return pandas_frame(self.rows, self._columns)

    def polars(self) -> Any:
        """The `rows` as a polars.DataFrame, times as Datetime in nanoseconds. Raises ImportError without polars."""
        return polars_frame(self.rows, self._columns)

    def parquet(self, path: str) -> None:
        """Write the `rows` to a Parquet file, times with nanoseconds in UTC. Raises ImportError without pyarrow."""
        write_parquet(self.rows, self._columns, path, metadata(self._reader.header))

    @property
    def _columns(self) -> Sequence[str]:
        return columns_of(self._reader.header)

    def _entries(self) -> Iterator[Any]:
        for entry in self._reader.entries():
            if isinstance(entry, Dropped):
                self.dropped = dict(entry.totals)
            elif isinstance(entry, End):
                self.end = entry
            yield entry


def _unit(table: Table, name: str) -> str | None:
    unit = table.units.get(name)
    return unit if isinstance(unit, str) else None


def _maker(name: str, table: Table) -> Callable[[int, tuple[Any, ...]], Any]:
    """The function that makes a named tuple of time and values; a field named as a keyword is called by its number."""
    factory: Any = namedtuple  # noqa: PYI024 - the fields are the file's, which a class statement cannot know
    made = factory(name, [TIME, *table.fields], rename=True)
    slots = list(table.fields.values())
    return lambda time, values: made(time, *[values[slot] for slot in slots])


def columns_of(header: Header) -> Sequence[str]:
    """The columns that rows of a recording have in any case."""
    if header.kind == "stacks":
        return (TIME, "comm", "pid", "count", "stack")
    table = header.events if header.kind == "events" else header.summary
    return (TIME,) if table is None else (TIME, *table.fields)


def metadata(header: Header) -> dict[str, str]:
    """The metadata of a Parquet file: of which command, and on what it ran."""
    return {"command": " ".join(["pyebpf", header.tool, *header.arguments]), "kernel": header.kernel}


def bucket_rows(time: int, histogram: Histogram) -> Iterator[dict[str, Any]]:
    """A row for each bucket, with what the histogram is of."""
    for bucket in histogram.rows():
        own = {"unit": histogram.unit, "low": bucket.low, "high": bucket.high, "count": bucket.count}
        yield {TIME: time, **histogram.labels, **own}


def stack_row(time: int, stack: Stack) -> dict[str, Any]:
    """A row with a folded stack."""
    _, *frames = names(stack)
    return {TIME: time, "comm": stack.comm, "pid": stack.pid, "count": stack.count, "stack": ";".join(frames)}
