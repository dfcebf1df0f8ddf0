"""Writers: records and histograms as text, CSV or JSON lines.

Events are written one by one (`begin`, then `record`); summaries an interval at a time (`interval`). An interval in
which nothing was seen has no object in JSON and no row in CSV; in text a table is its heading, and in place of
histograms there is a line that says so.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from pyebpf.output.columns import TIME, Row, plain
from pyebpf.output.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyebpf.output.columns import Column
    from pyebpf.output.histogram import Histogram
    from pyebpf.output.sink import Sink

Format = Literal["text", "csv", "json"]
#: The text of an interval that has no histogram.
NOTHING = "(nothing seen)"
Item_contra = TypeVar("Item_contra", contravariant=True)


class Intervals(Protocol[Item_contra]):
    """Writes summaries."""

    def interval(self, items: Iterable[Item_contra], time: str | None = None) -> None:
        """Write what one interval found; `time` is its end, which text has only where that is wanted."""


class Records(Intervals[Any], Protocol):
    """Writes records, as events or as the rows of a summary."""

    def begin(self) -> None:
        """Write what stands before the first event."""

    def record(self, record: object, time: str | None = None) -> None:
        """Write one event; `time` is when it happened, which text has in a column, if at all."""


def table_writer(form: Format, columns: Sequence[Column], sink: Sink) -> Records:
    """The writer of records in a format."""
    tables: dict[Format, Callable[[Sequence[Column], Sink], Records]]
    tables = {"text": TextTable, "csv": CsvTable, "json": JsonTable}
    return tables[form](columns, sink)


def histogram_writer(form: Format, sink: Sink) -> Intervals[Histogram]:
    """The writer of histograms in a format."""
    writers: dict[Format, Callable[[Sink], Intervals[Histogram]]]
    writers = {"text": TextHistograms, "csv": CsvHistograms, "json": JsonHistograms}
    return writers[form](sink)


class _Table:
    def __init__(self, columns: Sequence[Column], sink: Sink) -> None:
        self.row = Row(columns)
        self.sink = sink


class TextTable(_Table):
    """A heading line and a line a record; a summary repeats the heading, after an empty line."""

    def begin(self) -> None:
        """Write the heading."""
        self.sink.line(self.row.header())

    def record(self, record: object, time: str | None = None) -> None:  # noqa: ARG002 - see Records
        """Write one line."""
        self.sink.line(self.row.line(record))

    def interval(self, items: Iterable[object], time: str | None = None) -> None:
        """Write the interval's table."""
        stamp = [] if time is None else [time]
        self.sink.write("\n".join(["", *stamp, self.row.header(), *map(self.row.line, items), ""]))


class _Csv:
    """Lines in the csv module's default dialect, but ended by a plain newline."""

    def __init__(self, sink: Sink) -> None:
        import csv

        self.sink = sink
        self._buffer = io.StringIO()
        self._writer = csv.writer(self._buffer, lineterminator="\n")

    def write(self, rows: Iterable[Sequence[object]]) -> None:
        self._writer.writerows([_cell(value) for value in row] for row in rows)
        self.sink.write(self._buffer.getvalue())
        self._buffer.seek(0)
        self._buffer.truncate()


def _cell(value: object) -> object:
    """A CSV cell: control characters are escaped, for a terminal may show it; sequences have semicolons between."""
    if isinstance(value, str | bytes):
        return escaped(value)
    if isinstance(value, tuple | list):
        # A program that splits the cell finds as many items as there were; a backslash of an item is two.
        return ";".join(escaped(str(item)).replace(";", r"\x3b") for item in value)
    return value if value is None or isinstance(value, int | float) else escaped(str(value))


class CsvTable(_Table):
    """A heading line, once, and a line a record. The first column is the time."""

    def __init__(self, columns: Sequence[Column], sink: Sink) -> None:
        super().__init__(columns, sink)
        self._csv = _Csv(sink)
        self._begun = False

    def begin(self) -> None:
        """Write the heading."""
        if not self._begun:
            self._begun = True
            self._csv.write([[TIME, *self.row.fields]])

    def record(self, record: object, time: str | None = None) -> None:
        """Write one line."""
        self._csv.write([[time, *self.row.values(record)]])

    def interval(self, items: Iterable[object], time: str | None = None) -> None:
        """Write the interval's lines."""
        self.begin()
        self._csv.write([time, *self.row.values(item)] for item in items)


def json_line(value: object) -> str:
    """A value as a line of JSON."""
    from json import dumps

    # ASCII only: valid in any locale, and no terminal can be made to act on it.
    return dumps(value, allow_nan=False) + "\n"


class JsonTable(_Table):
    """An object a record, its keys the time and the fields of the columns."""

    def begin(self) -> None:
        """Nothing stands before the first object."""

    def record(self, record: object, time: str | None = None) -> None:
        """Write one object."""
        self.sink.write(json_line({TIME: time, **self.row.object(record)}))

    def interval(self, items: Iterable[object], time: str | None = None) -> None:
        """Write the interval's objects."""
        self.sink.write("".join(json_line({TIME: time, **self.row.object(item)}) for item in items))


class TextHistograms:
    """Histograms as bcc prints them, keyed ones below a line with their key, an empty line before each."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def interval(self, items: Iterable[Histogram], time: str | None = None) -> None:
        """Write the interval's histograms."""
        lines, seen = [] if time is None else ["", time], False
        for item in items:
            if not item.total:
                continue
            if item.labels or not lines:
                lines.append("")
            if item.labels:
                lines.append(item.heading())
            lines.extend(item.lines())
            seen = True
        if not seen:
            lines += [NOTHING] if lines else ["", NOTHING]
        self.sink.write("\n".join([*lines, ""]))


def _field(label: str) -> str:
    """The name of a histogram's label in CSV and JSON."""
    return label.replace(" ", "_")


class CsvHistograms:
    """A line a bucket: time, the key's columns, unit, low, high, count. No bound is an empty cell."""

    def __init__(self, sink: Sink) -> None:
        self._csv = _Csv(sink)
        self._begun = False

    def interval(self, items: Iterable[Histogram], time: str | None = None) -> None:
        """Write the interval's buckets."""
        for item in items:
            if not item.total:
                continue
            if not self._begun:
                self._begun = True
                self._csv.write([[TIME, *map(_field, item.labels), "unit", "low", "high", "count"]])
            key = [time, *item.labels.values(), item.unit]
            self._csv.write([*key, bucket.low, bucket.high, bucket.count] for bucket in item.rows())


class JsonHistograms:
    """An object a histogram: the time, its key, `unit`, and `buckets` of `low`, `high` and `count` (null: no bound).

    `sum` is there if the histogram keeps the sum of its values.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def interval(self, items: Iterable[Histogram], time: str | None = None) -> None:
        """Write the interval's objects."""
        lines = []
        for item in items:
            if not item.total:
                continue
            lines.append(json_line({TIME: time, **histogram_object(item)}))
        self.sink.write("".join(lines))


def histogram_object(item: Histogram) -> dict[str, object]:
    """A histogram as JSON has it, without the time."""
    key = {_field(name): plain(value) for name, value in item.labels.items()}
    buckets = [{"low": b.low, "high": b.high, "count": b.count} for b in item.rows()]
    totals = {} if item.sum is None else {"sum": item.sum}
    return {**key, "unit": item.unit, **totals, "buckets": buckets}
