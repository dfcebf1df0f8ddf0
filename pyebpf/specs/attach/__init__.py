"""Where a program is to run: frozen data, one class an attachment kind, one file a family."""

from pyebpf.specs.attach.base import AttachSpec
from pyebpf.specs.attach.iterators import KernelIterator
from pyebpf.specs.attach.perf_events import PerfEvent
from pyebpf.specs.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint

__all__ = ["AttachSpec", "BtfTracepoint", "KernelIterator", "PerfEvent", "RawTracepoint", "Tracepoint"]
