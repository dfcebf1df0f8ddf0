"""Attachments: one file a kind. `attach` chooses by the spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.link.base import Link
from pyebpf.specs import BtfTracepoint, PerfEvent, RawTracepoint, Tracepoint

if TYPE_CHECKING:
    from pyebpf.kernel.tracefs import Tracefs
    from pyebpf.objects import Program
    from pyebpf.specs import AttachSpec

__all__ = ["Link", "attach"]


def attach(program: Program, target: AttachSpec, *, tracefs: Tracefs | None = None) -> Link:
    """Attach a loaded program; the link that holds it.

    Raises NotFound, NotPermitted, NotSupported or KernelError, each with one line that says what is missing.
    """
    match target:
        case Tracepoint():
            from pyebpf.link.tracepoint import attach_tracepoint

            return attach_tracepoint(program, target, tracefs=tracefs)
        case RawTracepoint():
            from pyebpf.link.raw_tracepoint import attach_raw_tracepoint

            return attach_raw_tracepoint(program, target)
        case BtfTracepoint():
            from pyebpf.link.btf_tracepoint import attach_btf_tracepoint

            return attach_btf_tracepoint(program, target)
        case PerfEvent():
            from pyebpf.link.perf_event import attach_perf_event

            return attach_perf_event(program, target)
