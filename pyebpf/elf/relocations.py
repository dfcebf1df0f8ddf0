"""Object files: the contents of sections, every symbol by its number, and the relocations that are to be made."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal, NamedTuple

from pyebpf.elf.budget import MAX_RELOCATIONS
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import MalformedData, closest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.elf.headers import Section
    from pyebpf.elf.symbols import Symbol

_HEADER_SIZE, _CLASS_64 = 64, 2
_SHT_NOBITS, _SHT_REL = 8, 9
_RELOCATION_SIZE = 16  # Elf64_Rel
_COMPRESSED = 0x800  # SHF_COMPRESSED
_MAX_NO_BITS = 1 << 28


class Relocation(NamedTuple):
    """A value that is to be filled in at `offset` bytes of a section. `kind`: R_BPF_64_64 is 1, R_BPF_64_32 is 10."""

    offset: int
    symbol: Symbol
    kind: int


class RelocatableFile(NamedTuple):
    """A 64-bit object file. `relocations` are by the number of the section that they change."""

    byteorder: Literal["little", "big"]
    machine: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: Mapping[int, tuple[Relocation, ...]]
    data: bytes

    def contents(self, section: Section) -> bytes:
        """A section's bytes; none of one without bytes in the file (.bss), whose size counts, or of packed ones."""
        if section.type == _SHT_NOBITS or section.flags & _COMPRESSED:
            return b""
        return self.data[section.offset : section.offset + section.size]

    def find(self, name: str) -> Section | None:
        """The first section of that name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def functions(self, section: Section) -> tuple[Symbol, ...]:
        """The functions of a section by where they start. LLVM before 10 gave them no type, and labels neither."""

        def is_function(symbol: Symbol) -> bool:
            untyped = symbol.kind == "STT_NOTYPE" and not symbol.is_local and bool(symbol.name)
            return symbol.section == section.number and (symbol.kind == "STT_FUNC" or untyped)

        return tuple(sorted(filter(is_function, self.symbols), key=lambda symbol: symbol.value))

    def code_section(self, name: str) -> Section:
        """The section of that name, which holds instructions. Raises MalformedData, with the closest names."""
        named = {section.name: section for section in reversed(self.sections) if section.has_code}
        if name not in named:
            raise MalformedData(f"the object has no section {name!r} with code{closest(name, list(named))}")
        return named[name]


def read_relocatable(data: bytes) -> RelocatableFile:
    """Read an object file. MalformedData for what is none, or is cut short, garbled or compressed."""
    if data[:4] != b"\x7fELF":
        raise MalformedData("not an ELF file")
    if len(data) < _HEADER_SIZE or data[4] != _CLASS_64 or data[5] not in (1, 2):
        raise MalformedData("an ELF file of another kind than 64-bit objects")
    elf = ElfSymbols.from_bytes(data, "the object")
    if not elf.sections:
        raise MalformedData("the ELF file has no section table inside it: was it cut short?")
    sections = tuple(section._replace(name=_printable(section.name)) for section in elf.sections)
    for section in sections:
        _check(section, len(data))
    symbols = tuple(_named(symbol, sections) for symbol in elf.every_symbol())
    relocations: dict[int, list[Relocation]] = {}
    number = 0
    for section in sections:
        if section.type == _SHT_REL and section.info < len(sections) and sections[section.info].allocated:
            number += section.size // _RELOCATION_SIZE
            elf.budget.check(number, MAX_RELOCATIONS, "relocations")
            content = data[section.offset : section.offset + section.size]
            found = sorted(_relocations(elf.byte_order, section, content, symbols), key=lambda each: each.offset)
            relocations.setdefault(section.info, []).extend(found)
    byteorder: Literal["little", "big"] = "little" if elf.byte_order == "<" else "big"
    by_section = {number: tuple(found) for number, found in relocations.items()}
    return RelocatableFile(byteorder, elf.machine, sections, symbols, by_section, data)


def _check(section: Section, total: int) -> None:
    if section.type == _SHT_NOBITS:
        if section.size > _MAX_NO_BITS:
            raise MalformedData(f"section {section.name} is {section.size} bytes large")
    elif section.type and section.offset + section.size > total:
        raise MalformedData(f"section {section.name} is not inside the file: was it cut short?")
    elif section.flags & _COMPRESSED and section.allocated:
        raise MalformedData(f"section {section.name} is compressed")


def _named(symbol: Symbol, sections: tuple[Section, ...]) -> Symbol:
    """A symbol by its name, which that of a section does not have itself."""
    if symbol.kind == "STT_SECTION" and symbol.section is not None:
        return symbol._replace(name=sections[symbol.section].name)
    return symbol._replace(name=_printable(symbol.name))


def _printable(name: str) -> str:
    """Names go to the kernel and to terminals: what is not text in them is replaced."""
    return name if name.isascii() else name.encode(errors="surrogateescape").decode(errors="replace")


def _relocations(order: str, section: Section, data: bytes, symbols: tuple[Symbol, ...]) -> Iterator[Relocation]:
    layout = struct.Struct(order + "QQ")  # Elf64_Rel
    if section.entry_size != layout.size:
        raise MalformedData(f"the relocations of section {section.name} are garbled")
    for offset, info in layout.iter_unpack(data[: len(data) // layout.size * layout.size]):
        if info >> 32 >= len(symbols):
            raise MalformedData(f"a relocation names symbol {info >> 32} of {len(symbols)}")
        yield Relocation(offset, symbols[info >> 32], info & 0xFFFF_FFFF)
