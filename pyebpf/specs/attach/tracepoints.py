"""Tracepoints: through perf events, raw, raw with BTF types, and raw with an argument that programs may change."""

from __future__ import annotations

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

__all__ = ["BtfTracepoint", "RawTracepoint", "Tracepoint", "WritableRawTracepoint"]


@dataclass(frozen=True, slots=True)
class Tracepoint(AttachSpec):
    """A tracepoint through perf_event_open: `category` and `name` as under tracefs `events/`.

    `name` may be a pattern ("sys_enter_re*") for at most `most` tracepoints.
    """

    category: str
    name: str
    most: int = 1000

    program_type = ProgramType.TRACEPOINT

    def __str__(self) -> str:
        return f"tracepoint {self.category}:{self.name}"

    @property
    def target(self) -> str:
        return f"{self.category}:{self.name}"


@dataclass(frozen=True, slots=True)
class RawTracepoint(AttachSpec):
    """A raw tracepoint by name (BPF_RAW_TRACEPOINT_OPEN): arguments as the kernel passes them, no BTF trust."""

    name: str

    program_type = ProgramType.RAW_TRACEPOINT

    def __str__(self) -> str:
        return f"raw_tp {self.name}"

    @property
    def target(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class BtfTracepoint(AttachSpec):
    """A raw tracepoint whose arguments the verifier knows by BTF (BPF_TRACE_RAW_TP): typed pointers load directly."""

    name: str

    program_type = ProgramType.TRACING

    def __str__(self) -> str:
        return f"tp_btf {self.name}"

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_RAW_TP

    @property
    def target(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class WritableRawTracepoint(AttachSpec):
    """A raw tracepoint that was declared writable, by name ("bpf_test_finish", "nbd_send_request")."""

    name: str

    program_type = ProgramType.RAW_TRACEPOINT_WRITABLE

    def __str__(self) -> str:
        return f"writable raw_tp {self.name}"

    @property
    def target(self) -> str:
        return self.name
