"""What tracing needs to know of an ELF file: symbols with versions, file offsets, notes, the build id.

Read with `struct` alone: a library's table has tens of thousands of symbols, and a start waits for them. Layouts are
those of the ELF specification, `Elf64_Sym` and so on, of both classes and byte orders.
"""

from __future__ import annotations

import os
import stat
import struct
from fnmatch import translate
from io import BytesIO
from struct import Struct, iter_unpack, unpack_from
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pyebpf.errors import KernelError, MalformedData, NotFound, NotPermitted
from pyebpf.symbols.table import SymbolTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

__all__ = ["ElfSymbols", "Note", "Section", "Segment", "Symbol"]

FUNCTION, IFUNC, OBJECT, NO_TYPE = "STT_FUNC", "STT_GNU_IFUNC", "STT_OBJECT", "STT_NOTYPE"
_KINDS = {0: NO_TYPE, 1: OBJECT, 2: FUNCTION, 10: IFUNC}
_EXECUTABLE = 0x4  # SHF_EXECINSTR
_LOAD, _PT_NOTE, _PF_X = 1, 4, 1
_SHT_SYMTAB, _SHT_NOTE, _SHT_NOBITS, _SHT_DYNSYM = 2, 7, 8, 11
_SHT_GNU_VERDEF, _SHT_GNU_VERSYM = 0x6FFF_FFFD, 0x6FFF_FFFF
_VERSION_HIDDEN, _VERSION_NUMBER, _VER_FLG_BASE = 0x8000, 0x7FFF, 1
_NT_GNU_BUILD_ID = 3
_FILE_TYPES = {1: "ET_REL", 2: "ET_EXEC", 3: "ET_DYN", 4: "ET_CORE"}
_MOST_HEADERS = 1 << 20
# STB_LOCAL, STB_GLOBAL, STB_WEAK: of two names for one address, the one that its author meant to be seen.
_BINDING = {1: 0, 2: 1, 0: 2}
_TYPE_ORDER = {2: 0, 10: 1, 0: 2, 1: 3}


class Section(NamedTuple):
    """A section header, `Elf64_Shdr`: `address` is virtual, `offset` in the file, `link` another section's number."""

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


class Segment(NamedTuple):
    """A program header of type PT_LOAD or PT_NOTE, `Elf64_Phdr`."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    alignment: int


class Symbol(NamedTuple):
    """A defined symbol.

    `version` is "" or what follows `@` ("GLIBC_2.3.2"); `default` says whether a program linked today gets it
    (`name@@VERSION`). `kind` is STT_FUNC, STT_GNU_IFUNC (the address is that of the function that chooses),
    STT_OBJECT or STT_NOTYPE. `value` is a virtual address, `offset` the same place in the file: what a uprobe takes;
    None where the file has no bytes for it (.bss).
    """

    name: str
    version: str
    default: bool
    kind: str
    value: int
    size: int
    offset: int | None

    def __str__(self) -> str:
        mark = "@@" if self.default else "@"
        return f"{self.name}{mark}{self.version}" if self.version else self.name

    @property
    def is_function(self) -> bool:
        """Whether it is a function (an IFUNC's address is its chooser's, which is one, too)."""
        return self.kind in {FUNCTION, IFUNC}


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


class _Entries(NamedTuple):
    """A symbol table as it lies in the file: names by offset in `strings`, versions by the symbol's number."""

    strings: bytes
    # (offset of the name, info, section number, value, size, number in the table), defined symbols alone
    symbols: list[tuple[int, int, int, int, int, int]]
    versions: tuple[int, ...]
    version_names: dict[int, str]
    executable: frozenset[int]


class ElfSymbols:
    """An ELF file's symbols, sections, segments and notes. Headers are read at once, symbol tables when asked for.

    `path` may be any name of the file, `/proc/PID/root/...` or `/proc/self/fd/N`; no descriptor is kept.

    Raises NotFound if there is no such file, NotPermitted, MalformedData for one that is no ELF file or garbled.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._open: Callable[[], BinaryIO] = lambda: _open(path)
        self._load()

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Self:
        """Of an ELF file in memory, such as the vDSO; errors call it `name`."""
        self = cls.__new__(cls)
        self.path = name
        self._open = lambda: BytesIO(data)
        self._load()
        return self

    def _load(self) -> None:
        self.sections: tuple[Section, ...] = ()
        self.segments: tuple[Segment, ...] = ()
        self._others: list[ElfSymbols] = []
        self._entries: tuple[_Entries, ...] | None = None
        self._table: SymbolTable | None = None
        with self._open() as stream:
            self._total = stream.seek(0, os.SEEK_END)
            ident = self._bytes(stream, 0, min(16, self._total), "header")
            layout = _LAYOUTS.get((ident[4], "<>"[ident[5] - 1])) if _is_elf(ident) else None
            if layout is None:
                raise MalformedData(f"{self.path} is no ELF file")
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
        if size < 0 or offset + size > self._total:
            raise MalformedData(f"{self.path}: the {what} is not inside the file: was it cut short?")
        stream.seek(offset)
        data = stream.read(size)
        if len(data) != size:
            raise MalformedData(f"{self.path}: the file was cut short while it was read")
        return data

    def _records(self, stream: BinaryIO, offset: int, count: int, size: int, what: str) -> Iterator[tuple[int, ...]]:
        layout = self._layout.program if what == "program headers" else self._layout.section
        if count and (size < layout.size or count > _MOST_HEADERS):
            raise MalformedData(f"{self.path}: the {what} are garbled")
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
        names = self._bytes(stream, headers[names_at][4], headers[names_at][5], "table of section names")
        self.sections = tuple(Section(_text(names, fields[0]), *fields[1:]) for fields in headers)

    def section(self, name: str) -> Section | None:
        """The first section of that name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def contents(self, section: Section) -> bytes:
        """A section's bytes in the file; empty for .bss and the like."""
        if section.type == _SHT_NOBITS:
            return b""
        with self._open() as stream:
            return self._bytes(stream, section.offset, section.size, f"section {section.name}")

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
        for section, offset, size, alignment in places:
            if offset + size > self._total:
                continue  # a debug file keeps the headers of what it leaves out
            data = self._bytes(stream, offset, size, f"section {section}")
            yield from _parse_notes(data, self._layout.order, 8 if alignment == 8 else 4, section)

    # Symbols -------------------------------------------------------------------------------------------------------

    def include(self, other: ElfSymbols) -> None:
        """Have the symbols of a debug file of this one, too; file offsets stay those of this file."""
        self._others.append(other)
        self._table = None

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of a name: several if it has versions, unless one is named ("name@VER", "name@@VER").

        Those of the dynamic symbol table first, default versions before others.
        """
        bare, _, version = name.partition("@")
        found = (
            symbol
            for symbol in self._symbols(lambda entries: _offsets(entries.strings, bare))
            if symbol.name == bare and version.lstrip("@") in {"", symbol.version}
        )
        default_first = sorted(found, key=lambda symbol: not symbol.default)
        return tuple(symbol for symbol in default_first if not version.startswith("@") or symbol.default)

    def symbols(self) -> Iterator[Symbol]:
        """All functions, objects and labels of code, the dynamic symbol table's first, each place and name once."""
        return self._symbols(lambda _: None)

    def functions(self, pattern: str = "*") -> tuple[Symbol, ...]:
        """The functions (STT_FUNC, STT_GNU_IFUNC) whose name matches a pattern of `fnmatch`, by address."""
        import re

        match = re.compile(translate(pattern)).match
        found = (symbol for symbol in self.symbols() if symbol.is_function and match(symbol.name))
        return tuple(sorted(found, key=lambda symbol: (symbol.value, symbol.name)))

    def table(self) -> SymbolTable:
        """What names virtual addresses: functions and labels of code, of this file and those included."""
        if self._table is None:
            best: dict[int, tuple[int, int, int, int, bytes]] = {}
            for entries in self._all_entries():
                for name, info, place, value, size, _ in entries.symbols:
                    kind = info & 0xF
                    if kind not in {2, 10} and not (kind == 0 and place in entries.executable):
                        continue
                    # Of names for one address: a function, one with a size, a global one.
                    rank = (_TYPE_ORDER[kind], size == 0, _BINDING.get(info >> 4, 3))
                    known = best.get(value)
                    if known is None or rank < known[:3]:
                        best[value] = (*rank, size, _raw(entries.strings, name))
            symbols = [(value, entry[3], entry[4]) for value, entry in best.items()]
            ends = {s.address + s.size for s in self.sections if s.flags & _EXECUTABLE} - best.keys()
            self._table = SymbolTable([*symbols, *((end, 0, b"") for end in ends)])
        return self._table

    def _symbols(self, offsets: Callable[[_Entries], set[int] | None]) -> Iterator[Symbol]:
        seen: set[tuple[str, int]] = set()
        for entries in self._all_entries():
            wanted = offsets(entries)
            new = []
            for place, info, _, value, size, number in entries.symbols:
                if wanted is not None and place not in wanted:
                    continue
                # Static tables spell versions as part of the name.
                name, _, version = _text(entries.strings, place).partition("@")
                default = version.startswith("@")
                if entries.versions and number < len(entries.versions):
                    mark = entries.versions[number]
                    version = entries.version_names.get(mark & _VERSION_NUMBER, "")
                    default = bool(version) and not mark & _VERSION_HIDDEN
                if (name, value) not in seen:
                    kind = _KINDS[info & 0xF]
                    new.append(Symbol(name, version.lstrip("@"), default, kind, value, size, self.offset_of(value)))
            yield from new
            seen.update((symbol.name, symbol.value) for symbol in new)

    def _all_entries(self) -> Iterator[_Entries]:
        yield from self._own_entries()
        for other in self._others:
            yield from other._own_entries()

    def _own_entries(self) -> tuple[_Entries, ...]:
        if self._entries is None:
            tables = [section for section in self.sections if section.type in {_SHT_DYNSYM, _SHT_SYMTAB}]
            tables.sort(key=lambda section: section.type != _SHT_DYNSYM)
            try:
                with self._open() as stream:
                    self._entries = tuple(self._read_table(stream, section) for section in tables)
            except (struct.error, IndexError) as error:
                raise MalformedData(f"{self.path}: the symbol table is garbled") from error
        return self._entries

    def _read_table(self, stream: BinaryIO, section: Section) -> _Entries:
        layout = self._layout.symbol
        size = 24 if self._layout.wide else 16
        data = self._bytes(stream, section.offset, section.size // size * size, f"section {section.name}")
        names = self.sections[section.link]
        strings = self._bytes(stream, names.offset, names.size, f"section {names.name}")
        # In the order that Elf64_Sym has; Elf32_Sym has value and size before info.
        if self._layout.wide:
            symbols = [
                (name, info, place, value, length, number)
                for number, (name, info, _, place, value, length) in enumerate(iter_unpack(layout, data))
                if place and info & 0xF in _KINDS and name
            ]
        else:
            symbols = [
                (name, info, place, value, length, number)
                for number, (name, value, length, info, _, place) in enumerate(iter_unpack(layout, data))
                if place and info & 0xF in _KINDS and name
            ]
        versions: tuple[int, ...] = ()
        version_names: dict[int, str] = {}
        if section.type == _SHT_DYNSYM:
            versions, version_names = self._read_versions(stream)
        executable = frozenset(n for n, each in enumerate(self.sections) if each.flags & _EXECUTABLE)
        return _Entries(strings, symbols, versions, version_names, executable)

    def _read_versions(self, stream: BinaryIO) -> tuple[tuple[int, ...], dict[int, str]]:
        marks = next((section for section in self.sections if section.type == _SHT_GNU_VERSYM), None)
        defined = next((section for section in self.sections if section.type == _SHT_GNU_VERDEF), None)
        if marks is None or defined is None:
            return (), {}
        order = self._layout.order
        data = self._bytes(stream, marks.offset, marks.size // 2 * 2, "section .gnu.version")
        names_at = self.sections[defined.link]
        names = self._bytes(stream, names_at.offset, names_at.size, f"section {names_at.name}")
        table = self._bytes(stream, defined.offset, defined.size, "section .gnu.version_d")
        found = {}
        place = 0
        # Elf64_Verdef: vd_version, vd_flags, vd_ndx, vd_cnt u16, vd_hash, vd_aux, vd_next u32. Elf64_Verdaux:
        # vda_name u32.
        for _ in range(defined.info):
            _, flags, number, _, _, first, following = unpack_from(order + "HHHHIII", table, place)
            if not flags & _VER_FLG_BASE:  # the file's own name
                (name,) = unpack_from(order + "I", table, place + first)
                found[number & _VERSION_NUMBER] = _text(names, name)
            if not following:
                break
            place += following
        return unpack_from(f"{order}{len(data) // 2}H", data), found


def _open(path: str) -> BinaryIO:
    # Looked at before it is opened: a FIFO would wait for a writer, a device might do anything.
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise MalformedData(f"{path} is no regular file")
        return open(path, "rb")
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        raise NotFound(f"there is no file {path}") from None
    except PermissionError as error:
        raise NotPermitted(f"{path} cannot be read by this user", error.errno) from error
    except OSError as error:
        raise KernelError(f"{path} cannot be read: {error.strerror}", error.errno) from error


def _is_elf(ident: bytes) -> bool:
    return len(ident) == 16 and ident[:4] == b"\x7fELF" and ident[4] in {1, 2} and ident[5] in {1, 2}


def _raw(strings: bytes, offset: int) -> bytes:
    end = strings.find(b"\0", offset)
    return strings[offset:end] if end >= 0 else strings[offset:]


def _text(strings: bytes, offset: int) -> str:
    return _raw(strings, offset).decode(errors="surrogateescape")


def _offsets(strings: bytes, name: str) -> set[int]:
    """Where a name, perhaps with a version after it, may begin; linkers let one name end another."""
    sought = name.encode(errors="surrogateescape")
    found = set()
    place = strings.find(sought)
    while sought and place >= 0:
        found.add(place)
        place = strings.find(sought, place + 1)
    return found


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
