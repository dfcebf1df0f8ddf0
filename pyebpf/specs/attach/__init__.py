"""Attach points as frozen data: one class a kind of attachment, one file a family.

Those that most programs use are imported here; the others from their files, by what needs them.
"""

from pyebpf.specs.attach.base import AttachSpec
from pyebpf.specs.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint

__all__ = ["AttachSpec", "BtfTracepoint", "RawTracepoint", "Tracepoint"]
