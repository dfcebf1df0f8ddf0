"""Where a program is to run: frozen data, one class an attachment kind, one file a family.

Those that most programs use are imported here; the others from their files, by what needs them.
"""

from pyebpf.specs.attach.base import AttachSpec
from pyebpf.specs.attach.perf_events import PerfEvent
from pyebpf.specs.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint

__all__ = ["AttachSpec", "BtfTracepoint", "PerfEvent", "RawTracepoint", "Tracepoint"]
