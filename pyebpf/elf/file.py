"""An ELF file's sections, symbols and relocations as frozen records, read by pyelftools once and whole."""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pyebpf.errors import MalformedData, closest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ElfFile", "Relocation", "Section", "Symbol", "read_elf"]

_MACHINE = "EM_BPF"
# Offsets in Elf64_Ehdr: e_shoff u64, e_shentsize u16, e_shnum u16.
_SHOFF, _SHENTSIZE, _SHNUM = 0x28, 0x3A, 0x3C
_HEADER_SIZE = 64
_WRITE, _ALLOCATED, _EXECUTABLE, _COMPRESSED = 0x1, 0x2, 0x4, 0x800
_NO_BITS = "SHT_NOBITS"
# clang's largest objects have some thousands of symbols; what has more is no program for a kernel.
_MOST_SYMBOLS = 1 << 20
_MOST_NO_BITS = 1 << 28


class Section(NamedTuple):
    """One section; `data` is empty for one without bytes in the file (.bss), whose `size` counts."""

    number: int
    name: str
    data: bytes
    size: int
    kind: str
    flags: int

    @property
    def executable(self) -> bool:
        """Whether it holds instructions."""
        return bool(self.flags & _EXECUTABLE) and self.kind == "SHT_PROGBITS"

    @property
    def allocated(self) -> bool:
        """Whether it is there at run time."""
        return bool(self.flags & _ALLOCATED)

    @property
    def writable(self) -> bool:
        """Whether a program may write to it."""
        return bool(self.flags & _WRITE)


class Symbol(NamedTuple):
    """One symbol; `section` is None for one that is defined elsewhere, and may be missing there if it is `weak`.

    `kind` is STT_FUNC, STT_OBJECT, STT_SECTION or another of the ELF specification's.
    """

    name: str
    value: int
    size: int
    section: int | None
    kind: str
    local: bool
    weak: bool = False


class Relocation(NamedTuple):
    """A value that is to be filled in at `offset` bytes of a section. `kind`: R_BPF_64_64 is 1, R_BPF_64_32 is 10."""

    offset: int
    symbol: Symbol
    kind: int


class ElfFile(NamedTuple):
    """The parts of an object that matter. `relocations` are by the number of the section that they change."""

    byteorder: Literal["little", "big"]
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: Mapping[int, tuple[Relocation, ...]]

    def find(self, name: str) -> Section | None:
        """The first section of that name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def functions(self, section: Section) -> tuple[Symbol, ...]:
        """The functions of a section by where they start. LLVM before 10 gave them no type, and labels neither."""

        def is_function(symbol: Symbol) -> bool:
            untyped = symbol.kind == "STT_NOTYPE" and not symbol.local and bool(symbol.name)
            return symbol.section == section.number and (symbol.kind == "STT_FUNC" or untyped)

        found = filter(is_function, self.symbols)
        return tuple(sorted(found, key=lambda symbol: symbol.value))

    def code_section(self, name: str) -> Section:
        """The section of that name, which holds instructions. Raises MalformedData, with the closest names."""
        names = [section.name for section in self.sections if section.executable]
        section = next((s for s in self.sections if s.name == name and s.executable), None)
        if section is None:
            raise MalformedData(f"the object has no section {name!r} with code{closest(name, names)}")
        return section


def read_elf(data: bytes) -> ElfFile:
    """Read a BPF object. MalformedData for what is none, or is cut short, garbled or compressed."""
    if data[:4] != b"\x7fELF":
        raise MalformedData("not an ELF file")
    if len(data) < _HEADER_SIZE or data[4] != 2 or data[5] not in (1, 2):
        raise MalformedData("an ELF file of another kind than 64-bit objects")
    order = "<" if data[5] == 1 else ">"
    (offset,) = unpack_from(order + "Q", data, _SHOFF)
    size, count = unpack_from(order + "HH", data, _SHENTSIZE)
    # Checked before pyelftools walks them: a wrong count would keep it busy for long.
    if count == 0 or size != 64 or offset + size * count > len(data):
        raise MalformedData("the ELF file has no section table inside it: was it cut short?")
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    try:
        return _read(ELFFile(BytesIO(data)))
    except MalformedData:
        raise
    except Exception as error:  # pyelftools and its parsers raise many kinds over garbled data, none documented
        raise MalformedData(f"the ELF file is garbled: {str(error) or type(error).__name__}") from error


def _read(elf: Any) -> ElfFile:
    if elf["e_machine"] != _MACHINE:
        raise MalformedData(f"an ELF file for {elf['e_machine']}, not for BPF: compile with clang -target bpf")
    total = elf.stream.seek(0, 2)
    parts = list(elf.iter_sections())
    sections = tuple(_section(index, part, total) for index, part in enumerate(parts))
    table = next((part for part in parts if part["sh_type"] == "SHT_SYMTAB"), None)
    symbols: tuple[Symbol, ...] = ()
    if table is not None:
        if table["sh_entsize"] != 24 or table["sh_offset"] + table["sh_size"] > total:
            raise MalformedData("the ELF file's symbol table is garbled")
        if table.num_symbols() > _MOST_SYMBOLS:
            raise MalformedData(f"the ELF file has {table.num_symbols()} symbols, more than any program")
        symbols = tuple(_symbol(symbol, sections) for symbol in table.iter_symbols())
    relocations: dict[int, tuple[Relocation, ...]] = {}
    for part in parts:
        target = part["sh_info"]
        if part["sh_type"] == "SHT_REL" and target < len(sections) and sections[target].allocated:
            if part["sh_entsize"] != 16 or part["sh_offset"] + part["sh_size"] > total:
                raise MalformedData(f"the relocations of section {sections[target].name} are garbled")
            found = sorted(_relocations(part, symbols), key=lambda relocation: relocation.offset)
            relocations[target] = relocations.get(target, ()) + tuple(found)
    return ElfFile("little" if elf.little_endian else "big", sections, symbols, relocations)


def _section(index: int, part: Any, total: int) -> Section:
    kind, flags, size = str(part["sh_type"]), part["sh_flags"], part["sh_size"]
    name = part.name
    data = b""
    if kind == _NO_BITS:
        if size > _MOST_NO_BITS:
            raise MalformedData(f"section {name} is {size} bytes large")
    elif kind != "SHT_NULL":
        if part["sh_offset"] + size > total:
            raise MalformedData(f"section {name} is not inside the file: was it cut short?")
        if flags & _COMPRESSED:
            if flags & _ALLOCATED:
                raise MalformedData(f"section {name} is compressed")
        else:
            data = part.data()
    return Section(index, name, data, size, kind, flags)


def _symbol(symbol: Any, sections: tuple[Section, ...]) -> Symbol:
    place = symbol["st_shndx"]
    section = place if isinstance(place, int) and 0 < place < len(sections) else None
    info = symbol["st_info"]
    kind = str(info["type"])
    name = sections[section].name if kind == "STT_SECTION" and section is not None else symbol.name
    bind = info["bind"]
    return Symbol(
        name, symbol["st_value"], symbol["st_size"], section, kind, bind == "STB_LOCAL", weak=bind == "STB_WEAK"
    )


def _relocations(part: Any, symbols: tuple[Symbol, ...]) -> Iterator[Relocation]:
    for relocation in part.iter_relocations():
        number = relocation["r_info_sym"]
        if number >= len(symbols):
            raise MalformedData(f"a relocation names symbol {number} of {len(symbols)}")
        yield Relocation(relocation["r_offset"], symbols[number], relocation["r_info_type"])
