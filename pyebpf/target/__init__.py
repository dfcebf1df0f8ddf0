"""What a program is compiled for: kernel types, tracepoints, processors, features, answered by one `Target`."""

from __future__ import annotations

from pyebpf.target.facts import (
    KernelFunction,
    KernelMember,
    KernelParameter,
    KernelRawTracepoint,
    KernelType,
    TypeKind,
)
from pyebpf.target.live import LiveTarget
from pyebpf.target.recorded import RecordedTarget, Recorder
from pyebpf.target.target import Target

__all__ = [
    "KernelFunction",
    "KernelMember",
    "KernelParameter",
    "KernelRawTracepoint",
    "KernelType",
    "LiveTarget",
    "RecordedTarget",
    "Recorder",
    "Target",
    "TypeKind",
]
