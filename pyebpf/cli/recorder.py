"""--record: what a tool prints, as a recording (docs/recordings.md)."""

from __future__ import annotations

import os
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pyebpf import __version__
from pyebpf.cli.printing import Unrecorded
from pyebpf.cli.report import describe, note
from pyebpf.errors import InvalidValue
from pyebpf.output.histogram import Histogram
from pyebpf.output.sink import ReaderGone
from pyebpf.output.timestamps import Dates, Timestamps
from pyebpf.recording.entries import MAX_WRITTEN, histogram_entry, stack_entries, written_length
from pyebpf.recording.tables import Extraction
from pyebpf.recording.value_types import Mismatch
from pyebpf.recording.writer import Writer, check_place
from pyebpf.tool import EventTool, StackTool, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from pyebpf.cli.parser import Common
    from pyebpf.output.stacks import Stack
    from pyebpf.tool import AnyTool, Stop

_SECOND = 1_000_000_000  # nanoseconds


def check_common(common: Common) -> None:
    """Raise InvalidValue if the recording that the options ask for cannot be made."""
    check_place(common.record or "", overwrite=common.overwrite, is_bounded=common.record_size is not None)


class Recorder(Unrecorded):
    """Records a run: what is printed, and the dates of it. As a context it ends with how the run ended.

    Raises InvalidValue for a file that cannot be made. Later failures are notes; the run goes on.
    """

    is_recording = True

    def __init__(self, tool: AnyTool, options: Any, common: Common, command: Sequence[str], stop: Stop) -> None:
        super().__init__()
        self._clock, self.stamps = Timestamps(), Dates()
        self._stop, self._second, self._time = stop, -1, 0
        self._events, self._rows = _extractions(tool, options)
        unit = tool.unit if isinstance(tool, StackTool) or (isinstance(tool, SummaryTool) and tool.stacks) else None
        start = self.stamps.now()
        self.stamps.iso(start)
        self._header: dict[str, Any] = {
            "id": os.urandom(8).hex(),
            "version": __version__,
            "tool": tool.name,
            "kind": "events" if isinstance(tool, EventTool) else "stacks" if isinstance(tool, StackTool) else "summary",
            "arguments": list(command[1:]),
            "kernel": os.uname().release,
            "machine": os.uname().machine,
            "start": start,
            "zone": self.stamps.zone,
            "tracing": tool.tracing,
            "unit": unit or "",
            "has_stacks": unit is not None,
            "period": tool.period(options) if isinstance(tool, StackTool) and tool.period is not None else 0,
            "palette": tool.palette if isinstance(tool, StackTool) else "samples",
            "events": self._events and self._events.table,
            "summary": self._rows and self._rows.table,
            "interval": 0 if common.interval is None else round(common.interval * _SECOND),
            "form": common.form,
            "timestamps": common.timestamps,
            "screen": isinstance(tool, SummaryTool) and tool.screen,
            "rows": common.rows,
            "delimited": common.delimited,
            "annotated": common.annotated,
        }
        self._path = common.record or ""
        try:
            self._writer = Writer(self._path, self._header, note, overwrite=common.overwrite, size=common.record_size)
        except OSError as error:
            raise InvalidValue(f"--record: {common.record} cannot be written: {error.strerror}") from error

    def __enter__(self) -> Self:
        self._stop.while_waiting = self._writer.tick
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._stop.while_waiting = None
        reason: str = self._stop.reason or "count"
        message = ""
        if isinstance(error, ReaderGone | BrokenPipeError):
            reason = "reader"
        elif error is not None:
            reason, message = "error", describe(error)
        self._writer.add(["end", self._now(), reason, message, self._stop.unread])
        self._writer.close()

    def time_of(self, attribute: str) -> Callable[[object], int]:  # noqa: ARG002 - it was read when the event was recorded
        """The function that gives the time of the event that was recorded last, which is the one to print."""
        return lambda _: self._time

    def events(self, records: Iterator[Any], attribute: str) -> Iterator[Any]:
        """Record events, each before it is printed."""
        time, extraction, add = super().time_of(attribute), self._events, self._writer.add
        assert extraction is not None
        for record in records:
            self._time = at = self._clock.date(time(record))
            if at // _SECOND != self._second:
                self._check_zone(at)
            try:
                add(["event", at, *extraction.values(record)])
            except Mismatch as error:
                self._mismatch(error)
            except AttributeError:
                yield record  # whoever prints it says which column has no attribute
                raise
            yield record

    def interval(self, end: int, heading: str | None, items: Iterable[Any]) -> Iterable[Any]:
        """Record an interval, of which nothing was printed yet."""
        found = list(items)
        self._check_zone(end)
        rows = self._rows
        try:
            entries = [
                histogram_entry(item) if isinstance(item, Histogram) else ["row", *(rows.values(item) if rows else ())]
                for item in found
            ]
        except Mismatch as error:
            self._mismatch(error)
            return found
        except AttributeError:
            return found  # as above
        self._writer.add_group(["interval", end, heading, len(entries)], entries)
        return found

    def _mismatch(self, error: Mismatch) -> None:
        """End the recording, which a reader would refuse from here on."""
        self._writer.flush()
        self._writer.fail(f"{error}: give that Column its type=")

    def stacks(self, end: int, stacks: Sequence[Stack]) -> None:
        """Record stacks, as many as a reader takes, whose names are what fills it."""
        self._check_zone(end)
        frames: dict[tuple[str, str], int] = {}
        sizes = list(accumulate(map(written_length, stacks)))
        kept = stacks[: bisect_right(sizes, MAX_WRITTEN)]
        entries = (entry for stack in kept for entry in stack_entries(stack, frames))
        self._writer.add_group(["stacks", end, len(kept)], entries)
        if len(kept) < len(stacks):
            note(
                f"{self._path}: the recording has {len(kept)} of {len(stacks)} stacks: with the names of all their "
                f"functions more are not read; record for a shorter time, or of fewer processes"
            )

    def dropped(self, totals: Mapping[str, int]) -> int:
        """Record what was dropped so far; the time of that."""
        now = self._now()
        self._writer.add(["dropped", now, dict(totals)])
        return now

    def footer(self, lines: Iterable[str]) -> Iterable[str]:
        """Record the last lines of text."""
        found = list(lines)
        self._writer.add(["footer", found])
        return found

    def _now(self) -> int:
        now = self.stamps.now()
        self._check_zone(now)
        return now

    def _check_zone(self, at: int) -> None:
        """Record the zone that times are shown in from here on, if it is another one."""
        assert isinstance(self.stamps, Dates)
        self._second = at // _SECOND
        self.stamps.split(at)
        if self.stamps.zone != self._header["zone"]:
            self._header["zone"] = self.stamps.zone
            self._writer.add(["zone", self.stamps.zone])


def _extractions(tool: AnyTool, options: Any) -> tuple[Extraction | None, Extraction | None]:
    """The columns of events and those of summaries, as far as the tool has them."""
    columns = tool.columns_for(options)
    if isinstance(tool, EventTool):
        return Extraction(columns, tool.record, tool.sentence, is_timed=True), None
    lines = tool.lines if isinstance(tool, SummaryTool) else None
    events = None if lines is None else Extraction(lines.columns, lines.record, lines.sentence, is_timed=True)
    return events, Extraction(columns, tool.record) if columns else None
