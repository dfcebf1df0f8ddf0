"""Records of an opened tool as the objects that the command prints with `--json`."""

from __future__ import annotations

from operator import attrgetter
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from pyebpf.output.columns import TIME, Row
from pyebpf.output.histogram import Histogram
from pyebpf.output.stacks import Stack, stack_object
from pyebpf.output.timestamps import Timestamps
from pyebpf.output.writers import histogram_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.output.columns import Column


class JsonObjects:
    """Makes objects of records by `columns`; histograms and stacks need none.

    `time` is the attribute with a record's time, "" if it has none: then that is the end of the interval, or now while
    there is none. Records of the class `other` are made by `others`: a summary tool's events.
    """

    def __init__(
        self, columns: Sequence[Column], time: str = "", other: type | None = None, others: JsonObjects | None = None
    ) -> None:
        self._columns, self._other, self._others = columns, other, others
        self._time = attrgetter(time) if time else None
        self._row: Row | None = None
        self._stamps = Timestamps()

    def of(self, record: Any, ended: int | None = None) -> dict[str, object]:
        """A record's object: `time`, an ISO 8601 date, and the columns' fields; the interval has `ended` then."""
        if self._others is not None and self._other is not None and isinstance(record, self._other):
            return self._others.of(record)
        return {TIME: self._stamps.iso(self._time_of(record, ended)), **self._object(record)}

    def _time_of(self, record: object, ended: int | None) -> int:
        if self._time is not None:
            time: int = self._time(record)
            return time
        return monotonic_ns() if ended is None else ended

    def _object(self, record: object) -> dict[str, object]:
        if isinstance(record, Histogram):
            return histogram_object(record)
        if isinstance(record, Stack):
            return stack_object(record)
        if self._row is None:
            self._row = Row(self._columns)
        return self._row.object(record)
