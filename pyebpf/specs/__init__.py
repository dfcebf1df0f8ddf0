"""Frozen descriptions of maps, programs and attachments: what the compiler makes and the loader takes."""

from pyebpf.specs.attach_point import AttachSpec
from pyebpf.specs.maps import MapSpec
from pyebpf.specs.programs import Choice, Code, FunctionStart, ModuleSpec, ProgramSpec
from pyebpf.uapi.bpf import MapType, ProgramType

__all__ = [
    "AttachSpec",
    "Choice",
    "Code",
    "FunctionStart",
    "MapSpec",
    "MapType",
    "ModuleSpec",
    "ProgramSpec",
    "ProgramType",
]
