"""The kernel that a program is compiled for: types, tracepoints, processors and features, answered by one `Target`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.lazy import lazy_names
from pyebpf.target.facts import (
    KernelFunction,
    KernelMember,
    KernelParameter,
    KernelRawTracepoint,
    KernelType,
    KernelVariable,
    TypeKind,
)
from pyebpf.target.live import LiveTarget
from pyebpf.target.target import Target

if TYPE_CHECKING:
    from pyebpf.target.recorded import RecordedTarget, Recorder

__all__ = [
    "KernelFunction",
    "KernelMember",
    "KernelParameter",
    "KernelRawTracepoint",
    "KernelType",
    "KernelVariable",
    "LiveTarget",
    "RecordedTarget",
    "Recorder",
    "Target",
    "TypeKind",
]

__getattr__ = lazy_names(__name__, {"recorded": ("RecordedTarget", "Recorder")})
