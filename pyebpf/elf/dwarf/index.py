"""`UnitIndex`: the unit that an address is in."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import iter_unpack, unpack_from
from typing import TYPE_CHECKING

from pyebpf.elf.dwarf.sections import initial_length
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.elf.dwarf.sections import DebugSections
    from pyebpf.elf.dwarf.units import Header, Units

#: Parts of all units' code.
_MAX_RANGES = 1 << 18


class UnitIndex:
    """Which unit has an address: by `.debug_aranges`, and for units that are not in it by their own ranges."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._ranges: list[tuple[int, int, Header]] = []
        self._starts = array("Q")
        by_offset = {header.offset: header for header in units.headers}
        listed = set()
        for offset, low, high in _address_ranges(units.sections):
            if (header := by_offset.get(offset)) is not None:
                listed.add(offset)
                self._add(low, high, header)
        self._rest = [header for header in units.headers if header.offset not in listed]
        self._sort()

    def find(self, address: int) -> Header | None:
        """The unit that an address is in; None if none has it."""
        header = self._find(address)
        if header is None and self._rest:
            for header in self._rest:
                self._units.sections.elf.budget.clock()
                unit = self._units.read(header, only_root=True)
                for low, high in unit.ranges(unit.root.values):
                    self._add(low, high, header)
            self._rest = []
            self._sort()
            header = self._find(address)
        return header

    def _add(self, low: int, high: int, header: Header) -> None:
        self._ranges.append((low, high, header))
        self._units.sections.elf.budget.check(len(self._ranges), _MAX_RANGES, "parts of its code")

    def _find(self, address: int) -> Header | None:
        index = bisect_right(self._starts, address) - 1
        # Of ranges in others the innermost counts: they are few, and lie next to each other.
        for low, high, header in self._ranges[max(0, index - 8) : index + 1][::-1]:
            if low <= address < high:
                return header
        return None

    def _sort(self) -> None:
        self._ranges.sort(key=lambda each: each[:2])
        self._starts = array("Q", (low for low, _, _ in self._ranges))


def _address_ranges(sections: DebugSections) -> Iterator[tuple[int, int, int]]:
    """`.debug_aranges`, DWARF 5, section 6.1.2: the offset of a unit, and where a part of its code begins and ends."""
    data = sections.whole(".debug_aranges")
    order, place = sections.elf.byte_order, 0
    while place + 12 <= len(data):
        start = place
        length, place, size = initial_length(data, order, place)
        end = place + length
        _, offset = unpack_from(order + ("HQ" if size == 8 else "HI"), data, place)
        address_size = data[place + 2 + size]
        if end > len(data) or address_size not in (4, 8):
            raise MalformedData(f"{sections.elf.path}: section .debug_aranges is garbled")
        pair = 2 * address_size
        # Pairs are aligned from the start of the set.
        first = start + -(-(place + 4 + size - start) // pair) * pair
        pairs = data[first : first + (end - first) // pair * pair] if end > first else b""
        for low, size_ in iter_unpack(order + ("QQ" if address_size == 8 else "II"), pairs):
            if low and size_:
                yield offset, low, low + size_
        sections.elf.budget.clock()
        place = end
