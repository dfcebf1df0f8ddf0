"""Frozen descriptions of maps, programs and attachments: what the compiler makes and the loader takes."""

from pyebpf.specs.attach import AttachSpec, BtfTracepoint, PerfEvent, RawTracepoint, Tracepoint
from pyebpf.specs.maps import MapSpec
from pyebpf.specs.programs import Choice, Code, ModuleSpec, ProgramSpec, Subprogram
from pyebpf.uapi.bpf import MapType, ProgramType

__all__ = [
    "AttachSpec",
    "BtfTracepoint",
    "Choice",
    "Code",
    "MapSpec",
    "MapType",
    "ModuleSpec",
    "PerfEvent",
    "ProgramSpec",
    "ProgramType",
    "RawTracepoint",
    "Subprogram",
    "Tracepoint",
]
