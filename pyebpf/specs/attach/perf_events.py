"""Perf events: counters, samples and breakpoints."""

from __future__ import annotations

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.bpf import ProgramType

__all__ = ["Breakpoint", "PerfEvent"]


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

    kind = ProgramType.PERF_EVENT

    def __str__(self) -> str:
        rate = f"at {self.frequency} Hz" if self.frequency else f"every {self.period}"
        return f"perf event {self._event()} {rate}"

    def _event(self) -> str:
        """As perf(1) calls it, where the kernel's enums have a name."""
        from pyebpf.uapi.perf import Hardware, PerfType, Software

        for type_, events in ((PerfType.HARDWARE, Hardware), (PerfType.SOFTWARE, Software)):
            if self.type == type_ and any(self.config == each for each in events):
                return events(self.config).name.lower().replace("_", "-")
        return f"{self.type}:{self.config}"


@dataclass(frozen=True, slots=True)
class Breakpoint(AttachSpec):
    """Each time that the processor touches a place in memory, by its debug registers.

    `place` is an address, or a symbol: the kernel's, or with `pid` a process's ("name" or "FILE:name"). `access` is
    "w" (writes), "rw" (reads and writes) or "x" (the instruction there is run); `length` in bytes: 1, 2, 4 or 8.
    """

    place: int | str
    length: int = 8
    access: str = "w"
    pid: int = -1

    kind = ProgramType.PERF_EVENT

    def __str__(self) -> str:
        where = f"{self.place:#x}" if isinstance(self.place, int) else self.place
        return f"breakpoint {where}/{self.length}:{self.access}"
