"""Units: the entries of one source file, or of what several share; DWARF 5, sections 2.17 and 7.5."""

from __future__ import annotations

from struct import iter_unpack, unpack_from
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pyebpf.elf.dwarf.abbreviations import OF_CODE, Abbreviation, Kind, Sizes, read_abbreviations
from pyebpf.elf.dwarf.constants import (
    ADDRESS_NUMBERS,
    LOCAL_REFERENCES,
    STRING_NUMBERS,
    Attribute,
    Form,
)
from pyebpf.elf.dwarf.sections import initial_length
from pyebpf.elf.headers import raw
from pyebpf.elf.leb128 import uleb
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.elf.budget import Budget
    from pyebpf.elf.dwarf.abbreviations import Wanted
    from pyebpf.elf.dwarf.sections import DebugSections

#: An attribute's form, and the number that it has; of a string in the entry itself the place.
Value: TypeAlias = "tuple[int, int]"

_RESERVED = 0xFFFF_FFF0  # of unit_length: from here on it is no length
_OLDEST, _NEWEST = 2, 5
_NEW_UNITS = 5  # the version since which a unit's header says what it is
#: Bytes behind the header, by DW_UT_*: skeleton and split_compile have a number, type units what they are of.
_SIGNATURES = {0x04: 8, 0x05: 8}
_TYPE_UNITS = frozenset({0x02, 0x06})
_MAX_UNIT, _MAX_TABLE = 1 << 25, 1 << 22  # bytes of a unit, and of its abbreviations
_MAX_UNITS = 1 << 17
#: Bytes of a list of address ranges: few first, then all that are read.
_LISTS = (1 << 12, 1 << 20)
#: Operands by DW_RLE_*: end_of_list, base_addressx, startx_endx, startx_length, offset_pair, base_address, start_end,
#: start_length.
_ADDRESS, _INDEX, _LENGTH = range(3)
_RANGE_KINDS: dict[int, tuple[int, ...]] = {
    0x00: (),
    0x01: (_INDEX,),
    0x02: (_INDEX, _INDEX),
    0x03: (_INDEX, _LENGTH),
    0x04: (_LENGTH, _LENGTH),
    0x05: (_ADDRESS,),
    0x06: (_ADDRESS, _ADDRESS),
    0x07: (_ADDRESS, _LENGTH),
}
_ROOT = 512  # bytes in which a unit's first entry lies, mostly


class Header(NamedTuple):
    """A unit's header: where it stands in `.debug_info`, where it ends, and where its first entry is from the start."""

    offset: int
    end: int
    first: int
    version: int
    abbreviations: int
    sizes: Sizes
    has_entries: bool


class Entry(NamedTuple):
    """A debugging information entry: its place in the unit, its abbreviation, its attributes, and the place behind."""

    place: int
    abbreviation: Abbreviation
    values: dict[int, Value]
    end: int


class Unit:
    """A unit's entries. `root` is the first, whose attributes say where the file's tables have the unit's parts."""

    def __init__(
        self,
        sections: DebugSections,
        header: Header,
        abbreviations: dict[int, Abbreviation],
        shared: DebugSections | None = None,
        *,
        only_root: bool = False,
    ) -> None:
        self._sections = sections
        self._shared = shared
        self.header = header
        self._abbreviations = abbreviations
        self._order: Literal["little", "big"] = "little" if sections.elf.byte_order == "<" else "big"
        size = header.end - header.offset
        sections.elf.budget.check(size, _MAX_UNIT, "bytes of a unit")
        self.data = sections.read(".debug_info", header.offset, min(_ROOT, size) if only_root else size)
        self._base = 0
        root = self.entry(header.first)
        if root is None:
            raise MalformedData(f"{sections.elf.path}: a unit without entries")
        self.root = root
        self._base = self.address(root.values.get(Attribute.LOW_PC)) or 0

    def entry(self, place: int) -> Entry | None:
        """The entry at a place; None where a list of them ends. Raises IndexError and KeyError for garbled data."""
        data, order = self.data, self._order
        start = place
        code = data[place]
        place += 1
        if code >= 0x80:
            code, place = uleb(data, start)
        if not code:
            return None
        abbreviation = self._abbreviations[code]
        values: dict[int, Value] = {}
        for attribute, kind, size, form in abbreviation.steps:
            value = place
            if kind == Kind.FIXED:
                place += size
                if attribute:
                    value = int.from_bytes(data[value:place], order)
            elif kind == Kind.ULEB:
                value, place = uleb(data, place)
            elif kind == Kind.SLEB:
                _, place = uleb(data, place)
            elif kind == Kind.TEXT:
                place = data.index(0, place) + 1
            elif kind == Kind.BLOCK:
                length, place = uleb(data, place)
                place += length
            elif kind == Kind.SIZED_BLOCK:
                place += size + int.from_bytes(data[place : place + size], order)
            else:
                value = size
            if attribute:
                values[attribute] = form, value
        if place > len(data):
            raise IndexError
        return Entry(start, abbreviation, values, place)

    # -- values --------------------------------------------------------------------------------------------------------

    def address(self, value: Value | None) -> int | None:
        """The address that an attribute is; None for one that is no address."""
        if value is None:
            return None
        form, number = value
        if form == Form.ADDR:
            return number
        if form not in ADDRESS_NUMBERS:
            return None
        base = self._table(Attribute.GNU_ADDR_BASE if form == Form.GNU_ADDR_INDEX else Attribute.ADDR_BASE)
        return self._number(".debug_addr", base + number * self.header.sizes.address, self.header.sizes.address)

    def text(self, value: Value | None) -> str:
        """The string that an attribute is, "" without one, or where it is in a shared file that is not there."""
        if value is None:
            return ""
        form, number = value
        sections = self._sections
        if form == Form.STRING:
            return sections.elf.budget.name(raw(self.data, number))
        if form in (Form.STRP_SUP, Form.GNU_STRP_ALT):
            return self._shared.string(".debug_str", number) if self._shared is not None else ""
        if form in STRING_NUMBERS:
            base = self._table(Attribute.STR_OFFSETS_BASE)
            size = self.header.sizes.offset
            return sections.string(".debug_str", self._number(".debug_str_offsets", base + number * size, size))
        if form == Form.LINE_STRP:
            return sections.string(".debug_line_str", number)
        return sections.string(".debug_str", number) if form == Form.STRP else ""

    def reference(self, value: Value) -> int:
        """Where in `.debug_info` the entry is that an attribute refers to."""
        form, number = value
        return self.header.offset + number if form in LOCAL_REFERENCES else number

    def local(self, value: Value) -> int:
        """The place in the unit of the entry that an attribute refers to."""
        return self.reference(value) - self.header.offset

    @property
    def budget(self) -> Budget:
        """The limits of the file."""
        return self._sections.elf.budget

    def _table(self, attribute: Attribute) -> int:
        """Where a table has the unit's part; behind the table's header, where the unit does not say."""
        return self.root.values.get(attribute, (0, 8 if self.header.version >= _NEW_UNITS else 0))[1]

    def _number(self, section: str, offset: int, size: int) -> int:
        data = self._sections.read(section, offset, size)
        if len(data) != size:
            raise MalformedData(f"{self._sections.elf.path}: a unit refers to what {section} has not")
        return int.from_bytes(data, self._order)

    # -- addresses -----------------------------------------------------------------------------------------------------

    def ranges(self, values: dict[int, Value]) -> list[tuple[int, int]]:
        """Addresses of an entry's code, each with the end of its part; none of code that the linker left out."""
        if (value := values.get(Attribute.RANGES)) is not None:
            return [(low, high) for low, high in self._listed(value) if 0 < low < high]
        low = self.address(values.get(Attribute.LOW_PC))
        high_value = values.get(Attribute.HIGH_PC)
        if not low or high_value is None:
            return []
        high = self.address(high_value)
        if high is None:
            high = low + high_value[1]
        return [(low, high)] if low < high else []

    def _listed(self, value: Value) -> list[tuple[int, int]]:
        """A list of ranges."""
        form, offset = value
        section, parsed = ".debug_ranges", self._pairs
        if self.header.version >= _NEW_UNITS:
            section, parsed = ".debug_rnglists", self._range_list
            if form == Form.RNGLISTX:
                size = self.header.sizes.offset
                table = self.root.values.get(Attribute.RNGLISTS_BASE, (0, 20 if size == 8 else 12))[1]
                offset = table + self._number(section, table + offset * size, size)
        for size in _LISTS:
            data = self._sections.read(section, offset, size)
            try:
                return list(parsed(data))
            except IndexError:
                continue  # it is longer
        raise MalformedData(f"{self._sections.elf.path}: a list of address ranges has no end")

    def _pairs(self, data: bytes) -> Iterator[tuple[int, int]]:
        """`.debug_ranges`: pairs of offsets from the base, the largest number to set it, zeros at the end."""
        size = self.header.sizes.address
        largest, base = (1 << 8 * size) - 1, self._base
        layout = self._sections.elf.byte_order + ("QQ" if size == 8 else "II")
        for low, high in iter_unpack(layout, data[: len(data) - len(data) % (2 * size)]):
            if low == largest:
                base = high
            elif low or high:
                yield base + low, base + high
            else:
                return
        raise IndexError

    def _range_list(self, data: bytes) -> Iterator[tuple[int, int]]:
        """`.debug_rnglists`, DWARF 5, section 7.25."""
        base, place = self._base, 0
        while True:
            kind = data[place]
            if kind not in _RANGE_KINDS:
                raise MalformedData(f"{self._sections.elf.path}: kind {kind} of an address range is unknown")
            operands = []
            place += 1
            for operand in _RANGE_KINDS[kind]:
                if operand == _ADDRESS:
                    size = self.header.sizes.address
                    if place + size > len(data):
                        raise IndexError
                    number = int.from_bytes(data[place : place + size], self._order)
                    place += size
                else:
                    number, place = uleb(data, place)
                    if operand == _INDEX:
                        number = self.address((Form.ADDRX, number)) or 0
                operands.append(number)
            match kind:
                case 0x00:
                    return
                case 0x01 | 0x05:
                    (base,) = operands
                case 0x02 | 0x06:
                    yield operands[0], operands[1]
                case 0x03 | 0x07:
                    yield operands[0], operands[0] + operands[1]
                case 0x04:
                    yield base + operands[0], base + operands[1]


class Units:
    """All units of a file, by their headers; `shared` is the file that several share, if it is there.

    `wanted` are the attributes that are read.
    """

    def __init__(
        self, sections: DebugSections, shared: DebugSections | None = None, *, wanted: Wanted = OF_CODE
    ) -> None:
        self.sections = sections
        self._shared = shared
        self._wanted = wanted
        self._tables: dict[tuple[int, Sizes], dict[int, Abbreviation]] = {}
        self.headers = tuple(self._read_headers())

    def read(self, header: Header, *, only_root: bool = False) -> Unit:
        """Read a unit, or only its first entry."""
        key = header.abbreviations, header.sizes
        table = self._tables.get(key)
        if table is None:
            data = self.sections.read(".debug_abbrev", header.abbreviations, _MAX_TABLE)
            table = read_abbreviations(data, header.sizes, self.sections.elf.budget, self._wanted)
            if len(self._tables) >= 64:
                del self._tables[next(iter(self._tables))]
            self._tables[key] = table
        if only_root:
            try:
                return Unit(self.sections, header, table, self._shared, only_root=True)
            except IndexError:
                pass  # its first entry is longer
        return Unit(self.sections, header, table, self._shared)

    def _read_headers(self) -> Iterator[Header]:
        elf = self.sections.elf
        total, offset = self.sections.size(".debug_info"), 0
        number = 0
        while offset < total:
            number += 1
            elf.budget.clock(number)
            elf.budget.check(number, _MAX_UNITS, "units")
            header = self._read_header(offset)
            if header.end > total:
                raise MalformedData(f"{elf.path}: section .debug_info is cut short")
            offset = header.end
            if header.has_entries:
                yield header

    def _read_header(self, offset: int) -> Header:
        elf = self.sections.elf
        order = elf.byte_order
        data = self.sections.read(".debug_info", offset, 40)
        length, start, offset_size = initial_length(data, order)
        if offset_size == 4 and length >= _RESERVED:
            raise MalformedData(f"{elf.path}: section .debug_info is garbled")
        (version,) = unpack_from(order + "H", data, start)
        end = offset + start + length
        if not _OLDEST <= version <= _NEWEST:
            return Header(offset, end, 0, version, 0, Sizes(8, 4, 4), has_entries=False)
        word = order + ("Q" if offset_size == 8 else "I")
        if version >= _NEW_UNITS:
            kind, address_size = data[start + 2], data[start + 3]
            (abbreviations,) = unpack_from(word, data, start + 4)
            first = start + 4 + offset_size + _SIGNATURES.get(kind, 0)
            has_entries = kind not in _TYPE_UNITS
        else:
            (abbreviations,) = unpack_from(word, data, start + 2)
            address_size = data[start + 2 + offset_size]
            first = start + 3 + offset_size
            has_entries = True
        if address_size not in (4, 8):
            raise MalformedData(f"{elf.path}: a unit has addresses of {address_size} bytes")
        sizes = Sizes(address_size, offset_size, address_size if version == _OLDEST else offset_size)
        return Header(offset, end, first, version, abbreviations, sizes, has_entries)
