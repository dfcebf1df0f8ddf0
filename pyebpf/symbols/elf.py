"""What tracing needs to know of an ELF file: symbols with versions and file offsets.

Read with `struct` alone: a library's table has tens of thousands of symbols, and a start waits for them. Layouts are
those of the ELF specification, `Elf64_Sym` and so on, of both classes and byte orders.
"""

from __future__ import annotations

import struct
from fnmatch import translate
from struct import iter_unpack, unpack_from
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pyebpf.errors import MalformedData
from pyebpf.symbols.elf_headers import ElfHeaders, Note, Section, Segment, raw, text
from pyebpf.symbols.table import SymbolTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ElfSymbols", "Note", "Section", "Segment", "Symbol"]

FUNCTION, IFUNC, OBJECT, NO_TYPE = "STT_FUNC", "STT_GNU_IFUNC", "STT_OBJECT", "STT_NOTYPE"
_KINDS = {0: NO_TYPE, 1: OBJECT, 2: FUNCTION, 10: IFUNC}
_EXECUTABLE = 0x4  # SHF_EXECINSTR
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_SHT_GNU_VERDEF, _SHT_GNU_VERSYM = 0x6FFF_FFFD, 0x6FFF_FFFF
_VERSION_HIDDEN, _VERSION_NUMBER, _VER_FLG_BASE = 0x8000, 0x7FFF, 1
# STB_LOCAL, STB_GLOBAL, STB_WEAK: of two names for one address, the one that its author meant to be seen.
_BINDING = {1: 0, 2: 1, 0: 2}
_TYPE_ORDER = {2: 0, 10: 1, 0: 2, 1: 3}


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


class _Entries(NamedTuple):
    """A symbol table as it lies in the file: names by offset in `strings`, versions by the symbol's number."""

    strings: bytes
    # (offset of the name, info, section number, value, size, number in the table), defined symbols alone
    symbols: list[tuple[int, int, int, int, int, int]]
    versions: tuple[int, ...]
    version_names: dict[int, str]
    executable: frozenset[int]


class ElfSymbols(ElfHeaders):
    """An ELF file's symbols, sections, segments and notes. Headers are read at once, symbol tables when asked for.

    `path` may be any name of the file, `/proc/PID/root/...` or `/proc/self/fd/N`; no descriptor is kept, and a file
    that is replaced in the meantime is not taken for the same.

    Raises NotFound if there is no such file, NotPermitted, MalformedData for one that is no ELF file or garbled.
    """

    def _load(self) -> None:
        self._others: list[ElfSymbols] = []
        self._entries: tuple[_Entries, ...] | None = None
        self._table: SymbolTable | None = None
        super()._load()

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
                        best[value] = (*rank, size, raw(entries.strings, name))
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
                name, _, version = text(entries.strings, place).partition("@")
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
                found[number & _VERSION_NUMBER] = text(names, name)
            if not following:
                break
            place += following
        return unpack_from(f"{order}{len(data) // 2}H", data), found


def _offsets(strings: bytes, name: str) -> set[int]:
    """Where a name, perhaps with a version after it, may begin; linkers let one name end another."""
    sought = name.encode(errors="surrogateescape")
    found = set()
    place = strings.find(sought)
    while sought and place >= 0:
        found.add(place)
        place = strings.find(sought, place + 1)
    return found
