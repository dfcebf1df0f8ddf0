"""Objects that clang makes for BPF: sections, maps, programs, BTF and relocations, by libbpf's conventions.

Bytes in, specs out: nothing here opens a file or talks to a kernel.
"""

from __future__ import annotations

from pyebpf.elf.conventions import Convention, convention
from pyebpf.elf.file import ElfFile, Relocation, Section, Symbol, read_elf
from pyebpf.elf.kconfig import KernelConfig
from pyebpf.elf.listing import list_section
from pyebpf.elf.object import ElfObject, ElfProgram, read_object

__all__ = [
    "Convention",
    "ElfFile",
    "ElfObject",
    "ElfProgram",
    "KernelConfig",
    "Relocation",
    "Section",
    "Symbol",
    "convention",
    "list_section",
    "read_elf",
    "read_object",
]
