"""Raw tracepoints whose first argument programs may change."""

from __future__ import annotations

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.bpf import ProgramType

__all__ = ["WritableRawTracepoint"]


@dataclass(frozen=True, slots=True)
class WritableRawTracepoint(AttachSpec):
    """A raw tracepoint that was declared writable, by name ("bpf_test_finish", "nbd_send_request")."""

    name: str

    kind = ProgramType.RAW_TRACEPOINT_WRITABLE

    def __str__(self) -> str:
        return f"writable raw_tp {self.name}"

    @property
    def target(self) -> str:
        return self.name
