"""Frozen descriptions of maps, programs and attachments: what the compiler makes and the loader takes."""

from pyebpf.specs.attach import AttachSpec, BtfTracepoint, PerfEvent, RawTracepoint, Tracepoint
from pyebpf.specs.maps import MapKind, MapSpec
from pyebpf.specs.programs import Choice, Code, ModuleSpec, ProgramKind, ProgramSpec, Subprogram

__all__ = [
    "AttachSpec",
    "BtfTracepoint",
    "Choice",
    "Code",
    "MapKind",
    "MapSpec",
    "ModuleSpec",
    "PerfEvent",
    "ProgramKind",
    "ProgramSpec",
    "RawTracepoint",
    "Subprogram",
    "Tracepoint",
]
