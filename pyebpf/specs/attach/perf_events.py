"""Perf events: counters and samples."""

from __future__ import annotations

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.specs.programs import ProgramKind

__all__ = ["PerfEvent"]


@dataclass(frozen=True, slots=True)
class PerfEvent(AttachSpec):
    """A perf event.

    `type` and `config` of struct perf_event_attr; `frequency` in Hz or else `period` in events; one on each online
    processor, or of one process `pid`.
    """

    type: int
    config: int
    period: int = 0
    frequency: int = 0
    pid: int = -1

    kind = ProgramKind.PERF_EVENT

    def __str__(self) -> str:
        rate = f"{self.frequency} Hz" if self.frequency else f"every {self.period}"
        return f"perf event {self.type}:{self.config} {rate}"
