"""Messages of a tool about dropped events."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from pyebpf.cli.report import note
from pyebpf.output.escape import visible
from pyebpf.tool.drops import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.tool import Tracer

REPORT_INTERVAL = 1.0  # seconds
#: The reason of drops that a larger buffer prevents (pyebpf.maps.ringbuf.NO_ROOM).
NO_ROOM = "ring buffer full"


class Drops:
    """Reports on standard error what the tracer dropped, as soon as it is known, with exact totals.

    `objects` is given the same for a program that reads JSON.
    """

    def __init__(
        self, tracer: Tracer, drop_labels: Mapping[str, str], objects: Callable[[Mapping[str, int]], None] | None = None
    ) -> None:
        self._tracer = tracer
        self._objects = objects
        self._drop_labels = drop_labels
        self._reported: Mapping[str, int] = {}
        self._next = monotonic() + REPORT_INTERVAL
        self._final: Mapping[str, int] | None = None

    def end(self) -> None:
        """Count no further drops: what is printed from now on was counted before."""
        self._final = self._tracer.dropped

    def report(self) -> None:
        """Report the totals, if they grew since the last report."""
        dropped = in_words(self._tracer.dropped if self._final is None else self._final, self._drop_labels)
        if dropped != self._reported:
            self._reported = dropped
            if self._objects is not None:
                self._objects(dropped)
            note_dropped(dropped)

    def are_due(self) -> bool:
        """Whether it is time to report: once a second."""
        now = monotonic()
        due = now >= self._next
        if due:
            self._next = now + REPORT_INTERVAL
        return due


def note_dropped(dropped: Mapping[str, int]) -> None:
    """Write totals by reason to standard error."""
    total = sum(dropped.values())
    reasons = ", ".join(f"{visible(reason)}: {count}" for reason, count in dropped.items())
    remedy = "; --buffer SIZE gives them more room" if any(NO_ROOM in reason for reason in dropped) else ""
    note(f"Dropped {total} event{'' if total == 1 else 's'} so far ({reasons}){remedy}")
