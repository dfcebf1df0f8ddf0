"""An ELF file's headers: sections, segments, notes, and where an address lies in the file."""

from __future__ import annotations

import os
from struct import Struct, unpack_from
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pyebpf.elf.budget import (
    MAX_HEADER_BYTES,
    MAX_NAME,
    MAX_NOTE_SECTIONS,
    MAX_SECTIONS,
    MAX_STRING_BYTES,
    PATIENCE,
    Budget,
)
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LOAD, _PT_NOTE, _PF_X = 1, 4, 1
_PAGE = 4096  # at least
_SHT_PROGBITS, _SHT_NOTE, _SHT_NOBITS = 1, 7, 8
_ALLOCATED, _EXECUTABLE = 0x2, 0x4
_NT_GNU_BUILD_ID = 3
_LONGEST_SECTION_NAME = 1024  # an object names the file and function of a uprobe there
_FILE_TYPES = {1: "ET_REL", 2: "ET_EXEC", 3: "ET_DYN", 4: "ET_CORE"}


class Section(NamedTuple):
    """A section header, `Elf64_Shdr`: `address` is virtual, `offset` in the file, `link` another section's number."""

    number: int
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int

    @property
    def allocated(self) -> bool:
        """Whether it is there at run time."""
        return bool(self.flags & _ALLOCATED)

    @property
    def executable(self) -> bool:
        """Whether it is for instructions, which a debug file leaves out."""
        return bool(self.flags & _EXECUTABLE)

    @property
    def has_code(self) -> bool:
        """Whether the file has its instructions."""
        return self.executable and self.type == _SHT_PROGBITS


class Segment(NamedTuple):
    """A program header of type PT_LOAD or PT_NOTE, `Elf64_Phdr`."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    alignment: int


class Note(NamedTuple):
    """A note: who defined it ("GNU", "stapsdt"), its type, its bytes, and the section where it stands."""

    owner: str
    type: int
    description: bytes
    section: str


class _Layout(NamedTuple):
    """The structs of one class and byte order, with the fields in the order that Section, Segment and so on have."""

    header: Struct  # e_type machine version entry phoff shoff flags ehsize phentsize phnum shentsize shnum shstrndx
    program: Struct
    section: Struct
    symbol: str
    wide: bool
    order: str


_CLASS_64 = 2
_LAYOUTS = {
    (size, order): _Layout(
        Struct(order + ("HHIQQQIHHHHHH" if size == _CLASS_64 else "HHIIIIIHHHHHH")),
        Struct(order + ("IIQQQQQQ" if size == _CLASS_64 else "IIIIIIII")),
        Struct(order + ("IIQQQQIIQQ" if size == _CLASS_64 else "IIIIIIIIII")),
        order + ("IBBHQQ" if size == _CLASS_64 else "IIIBBH"),
        size == _CLASS_64,
        order,
    )
    for size in (1, 2)
    for order in "<>"
}


class ElfHeaders:
    """An ELF file's sections, segments and notes, read at once; `ElfSymbols` says which errors are raised.

    `open_file` is called whenever something is to be read; errors call the file `path`.
    """

    #: Device and inode number; (0, 0) of bytes in memory.
    identity = (0, 0)
    #: Who may have written the file; root of bytes in memory.
    owner = 0

    def __init__(self, open_file: Callable[[], BinaryIO], path: str, *, seconds: float = PATIENCE) -> None:
        self.path = path
        self.budget = Budget(path, seconds)
        self._open = open_file
        self.sections: tuple[Section, ...] = ()
        self.segments: tuple[Segment, ...] = ()
        with open_file() as stream:
            try:
                self._total = stream.seek(0, os.SEEK_END)
            except OSError as error:
                raise MalformedData(f"{path} cannot be read: {error.strerror}") from error
            ident = self._bytes(stream, 0, min(16, self._total), "header")
            layout = _LAYOUTS.get((ident[4], "<>"[ident[5] - 1])) if _is_elf(ident) else None
            if layout is None:
                raise MalformedData(f"{self.path} is not an ELF file")
            self._layout = layout
            header = layout.header.unpack(self._bytes(stream, 16, layout.header.size, "header"))
            self.type = _FILE_TYPES.get(header[0], str(header[0]))
            self.machine = header[1]
            self._read_segments(stream, header[4], header[8], header[9])
            if header[5]:
                self._read_sections(stream, header[5], header[10], header[11], header[12])
            self._notes = tuple(self._read_notes(stream))

    # Headers -------------------------------------------------------------------------------------------------------

    def _bytes(self, stream: BinaryIO, offset: int, size: int, what: str) -> bytes:
        self.budget.check(size, MAX_STRING_BYTES, f"bytes of its {what}")
        if size < 0 or offset + size > self._total:
            raise MalformedData(f"{self.path}: the file ends before the end of its {what}: was it cut short?")
        try:
            stream.seek(offset)
            data = stream.read(size)
        except OSError as error:
            raise MalformedData(f"{self.path} cannot be read: {error.strerror}") from error
        if len(data) != size:
            raise MalformedData(f"{self.path}: the file was cut short while it was read")
        return data

    def _records(self, stream: BinaryIO, offset: int, count: int, size: int, what: str) -> Iterator[tuple[int, ...]]:
        layout = self._layout.program if what == "program headers" else self._layout.section
        if count and size < layout.size:
            raise MalformedData(f"{self.path}: the {what} are garbled")
        self.budget.check(count, MAX_SECTIONS, what)
        self.budget.check(count * size, MAX_HEADER_BYTES, f"bytes of {what}")
        data = self._bytes(stream, offset, count * size, what)
        for start in range(0, count * size, size or 1):
            yield layout.unpack_from(data, start)

    def _read_segments(self, stream: BinaryIO, offset: int, size: int, count: int) -> None:
        found = []
        for fields in self._records(stream, offset, count, size, "program headers"):
            if self._layout.wide:
                kind, flags, start, address, _, file_size, memory_size, alignment = fields
            else:
                kind, start, address, _, file_size, memory_size, flags, alignment = fields
            if kind in {_LOAD, _PT_NOTE}:
                found.append(Segment(kind, flags, start, address, file_size, memory_size, alignment))
        self.segments = tuple(found)

    def _read_sections(self, stream: BinaryIO, offset: int, size: int, count: int, names_at: int) -> None:
        # More than 65,279 sections: their number is in the first one, and so is that of the names (gABI, "ELF header").
        (first,) = self._records(stream, offset, 1, size, "section headers")
        headers = list(self._records(stream, offset, count or first[5], size, "section headers"))
        names_at = first[6] if names_at == 0xFFFF else names_at
        if names_at >= len(headers):
            raise MalformedData(f"{self.path}: the section headers are garbled")
        self.budget.check(headers[names_at][5], MAX_HEADER_BYTES, "bytes of section names")
        names = self._bytes(stream, headers[names_at][4], headers[names_at][5], "table of section names")
        self.sections = tuple(
            Section(number, self.budget.name(raw(names, fields[0])[:_LONGEST_SECTION_NAME]), *fields[1:])
            for number, fields in enumerate(headers)
        )

    @property
    def wide(self) -> bool:
        """Whether addresses have 8 bytes (ELFCLASS64)."""
        return self._layout.wide

    @property
    def byte_order(self) -> str:
        """The byte order as `struct` spells it: "<" or ">"."""
        return self._layout.order

    def section(self, name: str) -> Section | None:
        """The first section of that name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def contents(self, section: Section) -> bytes:
        """A section's bytes in the file; empty for .bss and the like."""
        if section.type == _SHT_NOBITS:
            return b""
        with self._open() as stream:
            return self._bytes(stream, section.offset, section.size, f"section {section.name}")

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the file, fewer where it ends."""
        with self._open() as stream:
            return self._bytes(stream, offset, max(min(size, self._total - offset), 0), "code")

    # Places --------------------------------------------------------------------------------------------------------

    def offset_of(self, address: int) -> int | None:
        """File offset of a virtual address, by the PT_LOAD segment that has it; None outside and in .bss."""
        for segment in self.segments:
            if segment.type == _LOAD and 0 <= address - segment.address < segment.file_size:
                return address - segment.address + segment.offset
        return None

    def address_of(self, offset: int, *, executable: bool = True) -> int | None:
        """Virtual address of a file offset; None if no segment (`executable`: none with code) loads it.

        Two segments may load the same page; code is meant, unless told otherwise.
        """
        for segment in self.segments:
            if segment.type != _LOAD or (executable and not segment.flags & _PF_X):
                continue
            if 0 <= offset - segment.offset < segment.file_size:
                return offset - segment.offset + segment.address
        return None

    def bias(self, start: int, offset: int) -> int | None:
        """How far above the file's own addresses a mapping of its code is; None if it has none of that.

        `start` is the mapping's address, `offset` where it begins in the file: at the page in which a segment begins.
        """
        return bias(self.segments, start, offset)

    # Notes ---------------------------------------------------------------------------------------------------------

    def notes(self, owner: str | None = None) -> tuple[Note, ...]:
        """All notes, or those of one owner ("stapsdt" for USDT), in the file's order."""
        return tuple(note for note in self._notes if owner in {None, note.owner})

    @property
    def build_id(self) -> str:
        """NT_GNU_BUILD_ID in hexadecimal; empty if the file has none."""
        found = (note for note in self._notes if note.owner == "GNU" and note.type == _NT_GNU_BUILD_ID)
        return next((note.description.hex() for note in found), "")

    @property
    def debug_link(self) -> tuple[str, int] | None:
        """`.gnu_debuglink`: the debug file's name and its CRC-32; None if there is none."""
        section = self.section(".gnu_debuglink")
        if section is None:
            return None
        data = self.contents(section)
        end = data.find(b"\0")
        place = (end + 4) & ~3
        if end < 1 or place + 4 > len(data):
            return None
        return os.fsdecode(data[:end]), unpack_from(self._layout.order + "I", data, place)[0]

    def _read_notes(self, stream: BinaryIO) -> Iterator[Note]:
        # Sections, since USDT's are in no segment; segments where a file has been stripped of its sections.
        places = [(s.name, s.offset, s.size, s.alignment) for s in self.sections if s.type == _SHT_NOTE]
        if not self.sections:
            places = [("", s.offset, s.file_size, s.alignment) for s in self.segments if s.type == _PT_NOTE]
        self.budget.check(len(places), MAX_NOTE_SECTIONS, "sections of notes")
        for section, offset, size, alignment in places:
            if offset + size > self._total:
                continue  # a debug file keeps the headers of what it leaves out
            self.budget.notes(size)
            data = self._bytes(stream, offset, size, f"section {section}")
            yield from _parse_notes(data, self._layout.order, 8 if alignment == 8 else 4, section)


def bias(segments: Iterable[Segment], start: int, offset: int) -> int | None:
    """`ElfHeaders.bias` by the segments alone."""
    for segment in segments:
        if segment.type == _LOAD and segment.flags & _PF_X:
            begin = segment.offset & -max(segment.alignment, _PAGE)
            if begin <= offset < segment.offset + segment.file_size:
                return start - offset + segment.offset - segment.address
    return None


def _is_elf(ident: bytes) -> bool:
    return len(ident) == 16 and ident[:4] == b"\x7fELF" and ident[4] in {1, 2} and ident[5] in {1, 2}


def raw(strings: bytes, offset: int) -> bytes:
    """The bytes of a string table from `offset` to the next NUL; of a name that is too long, its beginning."""
    end = strings.find(b"\0", offset, offset + MAX_NAME)
    return strings[offset:end] if end >= 0 else strings[offset : offset + MAX_NAME]


def _parse_notes(data: bytes, order: str, alignment: int, section: str) -> Iterator[Note]:
    """Elf64_Nhdr: n_namesz, n_descsz, n_type u32; then name and description, each padded."""
    place = 0
    mask = alignment - 1
    while place + 12 <= len(data):
        name_size, size, kind = unpack_from(order + "III", data, place)
        name_at = place + 12
        description_at = (name_at + name_size + mask) & ~mask
        end = description_at + size
        if end > len(data):
            return
        owner = data[name_at : name_at + name_size].rstrip(b"\0").decode(errors="surrogateescape")
        yield Note(owner, kind, data[description_at:end], section)
        place = (end + mask) & ~mask
