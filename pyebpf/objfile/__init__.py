"""Objects that clang makes for BPF: sections, maps, programs, BTF and relocations, by libbpf's conventions.

Bytes in, specs out: nothing here opens a file or talks to a kernel.
"""

from __future__ import annotations

from pyebpf.objfile.kconfig import KernelConfig
from pyebpf.objfile.listing import list_section
from pyebpf.objfile.object_file import ElfObject, ElfProgram, read_object
from pyebpf.objfile.sections import Convention, convention

__all__ = [
    "Convention",
    "ElfObject",
    "ElfProgram",
    "KernelConfig",
    "convention",
    "list_section",
    "read_object",
]
