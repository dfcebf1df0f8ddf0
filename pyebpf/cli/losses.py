"""Messages of a tool about lost events."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from pyebpf.cli.report import note
from pyebpf.output.escape import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.tool import Tracer

__all__ = ["Losses", "in_words"]

REPORT_INTERVAL = 1.0  # seconds


def in_words(lost: Mapping[str, int], holds: Mapping[str, str]) -> dict[str, int]:
    """Losses by reason without the tool's own names of maps and probes, which mean nothing to whoever runs it.

    `holds` tells what is in a map. "MAP: reason" and "PROBE: reason" become what was lost, and why; hidden maps, whose
    reasons tell it all, and places of the kernel ("tracepoint ...: missed by the kernel") are no such names.
    """
    found: dict[str, int] = {}
    for text, count in lost.items():
        name, colon, reason = text.partition(": ")
        if colon and name.startswith("."):
            words = reason
        elif colon and name.isidentifier():
            words = f"{holds.get(name, 'events')}: {reason}"
        else:
            words = text
        if count:
            found[words] = found.get(words, 0) + count
    return found


class Losses:
    """Says on standard error what the tracer lost, as soon as it is known, with exact totals."""

    def __init__(self, tracer: Tracer, holds: Mapping[str, str]) -> None:
        self._tracer = tracer
        self._holds = holds
        self._reported: Mapping[str, int] = {}
        self._next = monotonic() + REPORT_INTERVAL

    def report(self) -> None:
        """Report the totals, if they grew since the last report."""
        lost = in_words(self._tracer.lost, self._holds)
        if lost != self._reported:
            self._reported = lost
            total = sum(lost.values())
            reasons = ", ".join(f"{visible(reason)}: {count}" for reason, count in lost.items())
            note(f"Lost {total} event{'' if total == 1 else 's'} so far ({reasons})")

    def report_sometimes(self) -> None:
        """Report, but at most once a second."""
        now = monotonic()
        if now >= self._next:
            self._next = now + REPORT_INTERVAL
            self.report()
