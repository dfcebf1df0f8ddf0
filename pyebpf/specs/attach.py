"""Where a program is to run: frozen data, one class an attachment kind."""

from __future__ import annotations

from typing import TypeAlias

from pyebpf.dataclass import dataclass

__all__ = ["AttachSpec", "BtfTracepoint", "PerfEvent", "RawTracepoint", "Tracepoint"]


@dataclass(frozen=True, slots=True)
class Tracepoint:
    """A tracepoint through perf_event_open: `category` and `name` as under tracefs `events/`."""

    category: str
    name: str

    def __str__(self) -> str:
        return f"tracepoint {self.category}:{self.name}"


@dataclass(frozen=True, slots=True)
class RawTracepoint:
    """A raw tracepoint by name (BPF_RAW_TRACEPOINT_OPEN): arguments as the kernel passes them, no BTF trust."""

    name: str

    def __str__(self) -> str:
        return f"raw_tp {self.name}"


@dataclass(frozen=True, slots=True)
class BtfTracepoint:
    """A raw tracepoint whose arguments the verifier knows by BTF (BPF_TRACE_RAW_TP): typed pointers load directly."""

    name: str

    def __str__(self) -> str:
        return f"tp_btf {self.name}"


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """A perf event.

    `type` and `config` of struct perf_event_attr; `frequency` in Hz or else `period` in events; one on each online
    processor, or of one process `pid`.
    """

    type: int
    config: int
    period: int = 0
    frequency: int = 0
    pid: int = -1

    def __str__(self) -> str:
        rate = f"{self.frequency} Hz" if self.frequency else f"every {self.period}"
        return f"perf event {self.type}:{self.config} {rate}"


AttachSpec: TypeAlias = Tracepoint | RawTracepoint | BtfTracepoint | PerfEvent
