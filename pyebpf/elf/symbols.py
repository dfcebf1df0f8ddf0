"""Symbols of an ELF file for tracing, with versions and file offsets.

Read with `struct` alone: a library's table has tens of thousands of symbols, and a start waits for them. Layouts are
those of the ELF specification, `Elf64_Sym` and so on, of both classes and byte orders.
"""

from __future__ import annotations

import struct
from fnmatch import translate
from io import BytesIO
from struct import unpack_from
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pyebpf.elf.budget import MAX_SAME, MAX_STRING_BYTES, MAX_SYMBOLS, PATIENCE
from pyebpf.elf.headers import ElfHeaders, raw
from pyebpf.elf.symbol_table import SymbolTable
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pyebpf.elf.budget import Budget
    from pyebpf.elf.headers import Section

FUNCTION, IFUNC, OBJECT, NO_TYPE = "STT_FUNC", "STT_GNU_IFUNC", "STT_OBJECT", "STT_NOTYPE"
_KINDS = {0: NO_TYPE, 1: OBJECT, 2: FUNCTION, 10: IFUNC}
_IFUNC = 10
_FUNCTIONS = frozenset({2, _IFUNC})
_OTHER_KINDS = {3: "STT_SECTION", 4: "STT_FILE", 5: "STT_COMMON", 6: "STT_TLS"}
_BINDINGS = {0: "STB_LOCAL", 1: "STB_GLOBAL", 2: "STB_WEAK"}
_HIDDEN = frozenset({1, 2})  # STV_INTERNAL, STV_HIDDEN
_U64_MAX = (1 << 64) - 1
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_SHT_GNU_VERDEF, _SHT_GNU_VERSYM = 0x6FFF_FFFD, 0x6FFF_FFFF
_VERSION_HIDDEN, _VERSION_NUMBER, _VER_FLG_BASE = 0x8000, 0x7FFF, 1
# STB_LOCAL, STB_GLOBAL, STB_WEAK: of two names for one address, the one that its author meant to be seen.
_BINDING = {1: 0, 2: 1, 0: 2}
_TYPE_ORDER = {2: 0, 10: 1, 0: 2, 1: 3}


class Symbol(NamedTuple):
    """One symbol.

    `version` is "" or what follows `@` ("GLIBC_2.3.2"); `default` says whether a program linked today gets it
    (`name@@VERSION`). `kind` is STT_FUNC, STT_GNU_IFUNC (the address is that of the function that chooses),
    STT_OBJECT, STT_NOTYPE or another of the ELF specification's. `value` is a virtual address, `offset` the same place
    in the file: what a uprobe takes; None where the file has no bytes for it (.bss), and in an object. `section` is
    the number of its section, None of one that is defined elsewhere, which may be missing there if it is weak. `hidden`
    is visibility STV_HIDDEN or STV_INTERNAL, read in objects only.
    """

    name: str
    version: str
    default: bool
    kind: str
    value: int
    size: int
    offset: int | None
    section: int | None
    binding: str
    hidden: bool = False

    def __str__(self) -> str:
        mark = "@@" if self.default else "@"
        return f"{self.name}{mark}{self.version}" if self.version else self.name

    @property
    def is_function(self) -> bool:
        """Whether it is a function (an IFUNC's address is its chooser's, which is one, too)."""
        return self.kind in {FUNCTION, IFUNC}

    @property
    def is_local(self) -> bool:
        """Whether no other file sees it."""
        return self.binding == "STB_LOCAL"

    @property
    def is_weak(self) -> bool:
        """Whether another file's definition is taken before it, and none is fine."""
        return self.binding == "STB_WEAK"


class _Entries(NamedTuple):
    """A symbol table as it lies in the file: names by offset in `strings`, versions by the symbol's number."""

    strings: bytes
    data: bytes
    layout: struct.Struct
    wide: bool
    versions: Sequence[int]
    version_names: dict[int, str]
    executable: frozenset[int]
    budget: Budget

    def symbols(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Offset of the name, info, section number, value, size, number in the table: of defined symbols alone."""
        clock = self.budget.clock
        # In the order that Elf64_Sym has; Elf32_Sym has value and size before info.
        if self.wide:
            for number, (name, info, _, place, value, length) in enumerate(self.layout.iter_unpack(self.data), 1):
                if not number & 0xFFF:
                    clock(number)
                if place and info & 0xF in _KINDS and name:
                    yield name, info, place, value, length, number - 1
        else:
            for number, (name, value, length, info, _, place) in enumerate(self.layout.iter_unpack(self.data), 1):
                if not number & 0xFFF:
                    clock(number)
                if place and info & 0xF in _KINDS and name:
                    yield name, info, place, value, length, number - 1

    def name(self, offset: int) -> str:
        """The name at an offset. Raises OverBudget for names that are too long together."""
        return self.budget.name(raw(self.strings, offset))

    def size_and_name(self, number: int) -> tuple[int, int]:
        """Size of the symbol of a number, and where its name is."""
        fields = self.layout.unpack_from(self.data, number * self.layout.size)
        return (fields[5], fields[0]) if self.wide else (fields[2], fields[0])


class ElfSymbols(ElfHeaders):
    """An ELF file's symbols, sections, segments and notes. Headers are read at once, symbol tables when asked for.

    Raises MalformedData for what is not an ELF file or garbled, and what opening the file raises.
    """

    def __init__(self, open_file: Callable[[], BinaryIO], path: str, *, seconds: float = PATIENCE) -> None:
        super().__init__(open_file, path, seconds=seconds)
        self._others: list[ElfSymbols] = []
        self._entries: tuple[_Entries, ...] | None = None
        self._table: SymbolTable | None = None
        self._string_bytes = 0

    @staticmethod
    def from_bytes(data: bytes, name: str, *, seconds: float = PATIENCE) -> ElfSymbols:
        """Of an ELF file in memory, such as the vDSO; errors call it `name`."""
        return ElfSymbols(lambda: BytesIO(data), name, seconds=seconds)

    def include(self, other: ElfSymbols) -> None:
        """Have the symbols of a debug file of this one, too; file offsets stay those of this file."""
        other.budget.patience = self.budget.patience
        self._others.append(other)
        self._table = None

    @property
    def string_bytes(self) -> int:
        """Size of the string tables that `table()` holds on to."""
        return self._string_bytes

    def forget(self) -> None:
        """Give back what is not needed once the `table()` is made; it is read again if asked for."""
        self._entries = self._table = None
        self._others = []

    def find(self, name: str) -> tuple[Symbol, ...]:
        """The symbols of a name: several if it has versions, unless one is named ("name@VER", "name@@VER").

        Those of the dynamic symbol table first, default versions before others.
        """
        bare, _, version = name.partition("@")
        found = []
        for symbol in self._symbols(is_at=lambda entries: _places_of(entries.strings, bare)):
            if symbol.name == bare and version.lstrip("@") in {"", symbol.version}:
                found.append(symbol)
                self.budget.check(len(found), MAX_SAME, f"symbols of the name {bare}")
        default_first = sorted(found, key=lambda symbol: not symbol.default)
        return tuple(symbol for symbol in default_first if not version.startswith("@") or symbol.default)

    def mentions(self, name: str) -> bool:
        """Whether a symbol has this name, or ends so, defined here or in another file."""
        end = name.encode() + b"\0"
        return any(end in entries.strings for entries in self._own_entries())

    def symbols(self) -> Iterator[Symbol]:
        """All functions, objects and labels of code, the dynamic symbol table's first, each place and name once."""
        return self._symbols()

    def every_symbol(self) -> Iterator[Symbol]:
        """The static symbol table as it is, symbols of every kind by their numbers, defined here or not."""
        section = self._first(_SHT_SYMTAB)
        if section is None:
            return
        (entries,) = self._read_tables([section])
        if section.entry_size != entries.layout.size:
            raise MalformedData(f"{self.path}: the symbol table is garbled")
        self.budget.start()
        for fields in entries.layout.iter_unpack(entries.data):
            name, info, other, place, value, size = fields if entries.wide else (fields[i] for i in (0, 3, 4, 5, 1, 2))
            kind = _KINDS.get(info & 0xF) or _OTHER_KINDS.get(info & 0xF, str(info & 0xF))
            home = place if 0 < place < len(self.sections) else None
            binding = _BINDINGS.get(info >> 4, str(info >> 4))
            offset = self.offset_of(value)
            spelled = entries.name(name)
            yield Symbol(
                spelled,
                "",
                default=False,
                kind=kind,
                value=value,
                size=size,
                offset=offset,
                section=home,
                binding=binding,
                hidden=other & 3 in _HIDDEN,
            )

    def functions(self, pattern: str = "*") -> tuple[Symbol, ...]:
        """The functions (STT_FUNC, STT_GNU_IFUNC) whose name matches a pattern of `fnmatch`, by address."""
        return tuple(sorted(self.matching(pattern), key=lambda symbol: (symbol.value, symbol.name)))

    def matching(self, pattern: str) -> Iterator[Symbol]:
        """The same in the order of the tables, one at a time: those of a large file take 200 MiB."""
        import re

        match = re.compile(translate(pattern)).match
        return (symbol for symbol in self._symbols(_FUNCTIONS) if match(symbol.name))

    def ifuncs(self) -> Iterator[Symbol]:
        """Functions that are chosen among several when a program starts (STT_GNU_IFUNC)."""
        return self._symbols({_IFUNC})

    def table(self) -> SymbolTable:
        """Return symbols that name virtual addresses: functions and labels of code, of this file and those included."""
        if self._table is None:
            tables = list(self._all_entries())
            for entries in tables:
                entries.budget.start()
            # Numbers in place of tuples, which take a quarter of the memory: address, rank, place in the tables.
            ranked: list[int] = []
            for which, entries in enumerate(tables):
                code = entries.executable
                for _, info, place, value, size, number in entries.symbols():
                    kind = info & 0xF
                    if kind not in _FUNCTIONS and not (kind == 0 and place in code):
                        continue
                    # Of names for one address: a function, one with a size, a global one.
                    rank = _TYPE_ORDER[kind] << 3 | (size == 0) << 2 | _BINDING.get(info >> 4, 3)
                    ranked.append(value << 48 | rank << 40 | which << 32 | number)
            ranked.sort()
            self._table = self._table_of(ranked, tables)
        return self._table

    def _table_of(self, ranked: list[int], tables: list[_Entries]) -> SymbolTable:
        """The first symbol of each address."""
        starts = []
        strings = [entries.strings for entries in tables]
        self._string_bytes = sum(map(len, strings))
        before = -1
        for index, packed in enumerate(ranked, 1):
            if not index & 0xFFF:
                self.budget.clock(index)
            value = packed >> 48
            if value != before:
                before = value
                which = packed >> 32 & 0xFF
                size, name = tables[which].size_and_name(packed & 0xFFFF_FFFF)
                starts.append((value, size, which << 32 | name))
        ends = {s.address + s.size for s in self.sections if s.executable}
        ends -= {start[0] for start in starts}
        no_name = len(strings) << 32
        starts += [(min(end, _U64_MAX), 0, no_name) for end in ends]
        return SymbolTable.of_offsets(
            starts, lambda name: b"" if name == no_name else raw(strings[name >> 32], name & 0xFFFF_FFFF)
        )

    def _symbols(
        self,
        kinds: Collection[int] = _KINDS,
        is_at: Callable[[_Entries], Callable[[int], bool]] | None = None,
    ) -> Iterator[Symbol]:
        """Symbols of some types, whose names are at some offsets of a table, made one at a time."""
        tables = list(self._all_entries())
        for entries in tables:
            entries.budget.start()
        seen: set[tuple[str, int]] = set()
        for entries in tables:
            wanted = is_at(entries) if is_at is not None else None
            last = entries is tables[-1]
            new = []
            for place, info, section, value, size, number in entries.symbols():
                if (wanted is not None and not wanted(place)) or info & 0xF not in kinds:
                    continue
                # Static tables spell versions as part of the name.
                name, _, version = entries.name(place).partition("@")
                default = version.startswith("@")
                if entries.versions and number < len(entries.versions):
                    mark = entries.versions[number]
                    version = entries.version_names.get(mark & _VERSION_NUMBER, "")
                    default = bool(version) and not mark & _VERSION_HIDDEN
                if (name, value) in seen:
                    continue
                if not last:
                    new.append((name, value))
                kind = _KINDS[info & 0xF]
                home = section if section < len(self.sections) else None
                binding = _BINDINGS.get(info >> 4, str(info >> 4))
                offset = self.offset_of(value)
                yield Symbol(name, version.lstrip("@"), default, kind, value, size, offset, home, binding)
            seen.update(new)

    def _all_entries(self) -> Iterator[_Entries]:
        yield from self._own_entries()
        for other in self._others:
            yield from other._own_entries()

    def _own_entries(self) -> tuple[_Entries, ...]:
        if self._entries is None:
            # One of each type (gABI, "Sections").
            found = (self._first(kind) for kind in (_SHT_DYNSYM, _SHT_SYMTAB))
            self._entries = tuple(self._read_tables([section for section in found if section is not None]))
        return self._entries

    def _first(self, kind: int) -> Section | None:
        return next((section for section in self.sections if section.type == kind), None)

    def _read_tables(self, tables: list[Section]) -> list[_Entries]:
        size = struct.calcsize(self._layout.symbol)
        try:
            self.budget.check(sum(each.size // size for each in tables), MAX_SYMBOLS, "symbols")
            names = sum(self.sections[each.link].size for each in tables)
            self.budget.check(names, MAX_STRING_BYTES, "bytes of names")
            with self._open() as stream:
                return [self._entries_of(stream, section) for section in tables]
        except (struct.error, IndexError) as error:
            raise MalformedData(f"{self.path}: the symbol table is garbled") from error

    def _entries_of(self, stream: BinaryIO, section: Section) -> _Entries:
        layout = struct.Struct(self._layout.symbol)
        size = layout.size
        data = self._bytes(stream, section.offset, section.size // size * size, f"section {section.name}")
        names = self.sections[section.link]
        strings = self._bytes(stream, names.offset, names.size, f"section {names.name}")
        versions: Sequence[int] = ()
        version_names: dict[int, str] = {}
        if section.type == _SHT_DYNSYM:
            versions, version_names = self._read_versions(stream)
        executable = frozenset(n for n, each in enumerate(self.sections) if each.executable)
        wide = self._layout.wide
        return _Entries(strings, data, layout, wide, versions, version_names, executable, self.budget)

    def _read_versions(self, stream: BinaryIO) -> tuple[Sequence[int], dict[int, str]]:
        marks = next((section for section in self.sections if section.type == _SHT_GNU_VERSYM), None)
        defined = next((section for section in self.sections if section.type == _SHT_GNU_VERDEF), None)
        if marks is None or defined is None:
            return (), {}
        order = self._layout.order
        self.budget.check(marks.size // 2, MAX_SYMBOLS, "versions of symbols")
        data = self._bytes(stream, marks.offset, marks.size // 2 * 2, "section .gnu.version")
        names_at = self.sections[defined.link]
        names = self._bytes(stream, names_at.offset, names_at.size, f"section {names_at.name}")
        table = self._bytes(stream, defined.offset, defined.size, "section .gnu.version_d")
        found = {}
        place = 0
        # Elf64_Verdef: vd_version, vd_flags, vd_ndx, vd_cnt u16, vd_hash, vd_aux, vd_next u32. Elf64_Verdaux:
        # vda_name u32.
        for _ in range(min(defined.info, _VERSION_NUMBER)):
            _, flags, number, _, _, first, following = unpack_from(order + "HHHHIII", table, place)
            if not flags & _VER_FLG_BASE:  # the file's own name
                (name,) = unpack_from(order + "I", table, place + first)
                found[number & _VERSION_NUMBER] = self.budget.name(raw(names, name))
            if not following:
                break
            place += following
        return unpack_from(f"{order}{len(data) // 2}H", data), found


def _places_of(strings: bytes, name: str) -> Callable[[int], bool]:
    """Tell where a name, perhaps with a version after it, begins; linkers let one name end another."""
    sought = name.encode(errors="surrogateescape")
    if not sought:
        return lambda _: False
    ends = (sought + b"\0", sought + b"@")
    found = {len(strings) - len(sought)} if strings.endswith(sought) else set()
    for whole in ends:
        place = strings.find(whole)
        while place >= 0:
            if len(found) == MAX_SAME:  # what no linker writes: each symbol is compared
                return lambda place: strings.startswith(ends, place)
            found.add(place)
            place = strings.find(whole, place + 1)
    return found.__contains__
