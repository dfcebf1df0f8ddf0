"""Line tables: for each instruction the line that it comes from; DWARF 5, section 6.2, and versions 2 to 4 before."""

from __future__ import annotations

import posixpath
from array import array
from bisect import bisect_right
from struct import unpack_from
from typing import TYPE_CHECKING

from pyebpf.elf.dwarf.constants import Form
from pyebpf.elf.dwarf.sections import initial_length
from pyebpf.elf.headers import raw
from pyebpf.elf.leb128 import sleb, uleb
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pyebpf.elf.dwarf.sections import DebugSections

_NEW = 5
_MAX_LINE = 0xFFFF_FFFF
_MAX_TABLE, _MAX_ROWS, _MAX_FILES = 1 << 25, 1 << 19, 1 << 16
_PATH, _DIRECTORY_INDEX = 1, 2  # DW_LNCT_*
_OFTEN = 4096  # rows between looks at the clock
_NOTHING = -1
"""A row's file behind the end of a sequence."""


class LineTable:
    """Lines of one unit, whose files are named from `folder` on."""

    def __init__(self, sections: DebugSections, offset: int, folder: str) -> None:
        self._sections = sections
        self._budget = sections.elf.budget
        self._order = sections.elf.byte_order
        self._folder = folder
        self._addresses = array("Q")
        self._files = array("i")
        self._lines = array("I")
        header = sections.read(".debug_line", offset, 32)
        length, start, self._offset_size = initial_length(header, self._order)
        self._budget.check(length, _MAX_TABLE, "bytes of a line table")
        self._data = sections.read(".debug_line", offset + start, length)
        if len(self._data) != length:
            raise MalformedData(f"{sections.elf.path}: section .debug_line is cut short")
        self._names, program = self._header()
        self._read(program)
        self._data = b""

    @property
    def cost(self) -> int:
        """About how many bytes it takes."""
        return 16 * len(self._addresses) + 120 * len(self._names)

    def find(self, address: int) -> tuple[str, int]:
        """The file and line of an instruction; ("", 0) if none is known."""
        index = bisect_right(self._addresses, address) - 1
        if index < 0 or self._files[index] == _NOTHING:
            return "", 0
        return self.file(self._files[index]), self._lines[index]

    def files(self) -> Iterator[tuple[int, str]]:
        """The numbers and paths of all files."""
        for number in range(len(self._names)):
            yield number, self.file(number)

    def starts(self, files: Container[int]) -> Iterator[tuple[int, int]]:
        """The lines of some files, each with an address at which code of it begins."""
        before = (_NOTHING, 0)
        for address, file, line in zip(self._addresses, self._files, self._lines, strict=True):
            if (file, line) != before and file in files:
                yield line, address
            before = file, line

    def file(self, number: int) -> str:
        """The path of a file by its number in this table; "" for one that is not there."""
        if not 0 <= number < len(self._names):
            return ""
        name, folder = self._names[number]
        return posixpath.normpath(posixpath.join(self._folder, folder, name)) if name else ""

    # -- the header ----------------------------------------------------------------------------------------------------

    def _header(self) -> tuple[list[tuple[str, str]], int]:
        """Names of files with their folders, and where the program begins."""
        data, order = self._data, self._order
        (self._version,) = unpack_from(order + "H", data)
        if not 2 <= self._version <= _NEW:
            raise MalformedData(f"{self._sections.elf.path}: a line table of version {self._version}")
        place = 2
        if self._version >= _NEW:
            place += 2  # address_size, segment_selector_size
        word = order + ("Q" if self._offset_size == 8 else "I")
        (length,) = unpack_from(word, data, place)
        place += self._offset_size
        program = place + length
        self._minimum = data[place]
        place += 2 if self._version >= 4 else 1  # maximum_operations_per_instruction: 1 but for VLIW
        self._default_is_stmt, self._line_base, self._line_range, self._opcode_base = unpack_from("BbBB", data, place)
        if not self._line_range or not self._opcode_base:
            raise MalformedData(f"{self._sections.elf.path}: a line table is garbled")
        place += 4
        self._operands = data[place : place + self._opcode_base - 1]
        place += self._opcode_base - 1
        names = list(self._new_names(place) if self._version >= _NEW else self._old_names(place))
        return names, program

    def _old_names(self, place: int) -> Iterator[tuple[str, str]]:
        """Names up to version 4: both tables count from 1, and end with an empty name."""
        folders = [""]
        while self._data[place]:
            name = raw(self._data, place)
            place += len(name) + 1
            folders.append(self._budget.name(name))
            self._budget.check(len(folders), _MAX_FILES, "folders")
        place += 1
        yield "", ""
        number = 0
        while self._data[place]:
            name = raw(self._data, place)
            folder, place = uleb(self._data, place + len(name) + 1)
            _, place = uleb(self._data, place)
            _, place = uleb(self._data, place)
            yield self._budget.name(name), folders[folder] if folder < len(folders) else ""
            number += 1
            self._budget.check(number, _MAX_FILES, "files")

    def _new_names(self, place: int) -> Iterator[tuple[str, str]]:
        """Names in version 5: tables that say how they are written, and count from 0."""
        folders, place = self._table(place)
        files, _ = self._table(place)
        names = [str(folder.get(_PATH, "")) for folder in folders]
        for file in files:
            index = file.get(_DIRECTORY_INDEX, 0)
            folder = names[index] if isinstance(index, int) and index < len(names) else ""
            yield str(file.get(_PATH, "")), folder

    def _table(self, place: int) -> tuple[list[dict[int, str | int]], int]:
        data = self._data
        layout = []
        number = data[place]
        place += 1
        for _ in range(number):
            content, place = uleb(data, place)
            form, place = uleb(data, place)
            layout.append((content, form))
        count, place = uleb(data, place)
        self._budget.check(count * max(number, 1), _MAX_FILES, "files")
        found = []
        for _ in range(count):
            entry: dict[int, str | int] = {}
            for content, form in layout:
                entry[content], place = self._value(form, place)
            found.append(entry)
        return found, place

    def _value(self, form: int, place: int) -> tuple[str | int, int]:
        data = self._data
        word = self._order + ("Q" if self._offset_size == 8 else "I")
        match form:
            case Form.STRING:
                name = raw(data, place)
                return self._budget.name(name), place + len(name) + 1
            case Form.LINE_STRP | Form.STRP:
                section = ".debug_line_str" if form == Form.LINE_STRP else ".debug_str"
                return self._sections.string(section, unpack_from(word, data, place)[0]), place + self._offset_size
            case Form.UDATA:
                return uleb(data, place)
            case Form.DATA1:
                return data[place], place + 1
            case Form.DATA2:
                return unpack_from(self._order + "H", data, place)[0], place + 2
            case Form.DATA4:
                return unpack_from(self._order + "I", data, place)[0], place + 4
            case Form.DATA8:
                return unpack_from(self._order + "Q", data, place)[0], place + 8
            case Form.DATA16:
                return 0, place + 16
            case Form.BLOCK:
                size, place = uleb(data, place)
                return 0, place + size
        raise MalformedData(f"{self._sections.elf.path}: a line table has the form {form:#x}")

    # -- the program ---------------------------------------------------------------------------------------------------

    def _read(self, place: int) -> None:
        """Run the program, and keep its sequences in the order of their addresses."""
        sequences = sorted(self._sequences(place), key=lambda rows: rows[0][0])
        end = 0
        for rows in sequences:
            # Code that the linker left out is at 0, or at an address that nothing can have.
            if not rows[0][0] or rows[0][0] < end:
                continue
            previous = rows[0][0]
            for address, file, line in rows:
                if address < previous:
                    continue
                previous = address
                self._addresses.append(address)
                self._files.append(file)
                self._lines.append(line)
            end = previous

    def _sequences(self, place: int) -> Iterator[list[tuple[int, int, int]]]:
        """Rows up to each end of a sequence: address, file, line."""
        data, order, base, line_base, line_range = (
            self._data,
            self._order,
            self._opcode_base,
            self._line_base,
            self._line_range,
        )
        minimum, end = self._minimum, len(self._data)
        whole = (255 - base) // line_range * minimum  # DW_LNS_const_add_pc
        rows: list[tuple[int, int, int]] = []
        address, file, line, number = 0, 1, 1, 0
        while place < end:
            opcode = data[place]
            place += 1
            if opcode >= base:
                opcode -= base
                address += opcode // line_range * minimum
                line += line_base + opcode % line_range
                rows.append((address, file, line & _MAX_LINE))
            elif opcode == 0:
                size, place = uleb(data, place)
                kind = data[place]
                if kind == 1:  # DW_LNE_end_sequence
                    rows.append((address, _NOTHING, 0))
                    number += len(rows)
                    self._budget.check(number, _MAX_ROWS, "rows of a line table")
                    yield rows
                    rows = []
                    address, file, line = 0, 1, 1
                elif kind == 2:  # DW_LNE_set_address
                    address = int.from_bytes(data[place + 1 : place + size], "little" if order == "<" else "big")
                    address &= (1 << 64) - 1
                place += size
            elif opcode == 1:  # DW_LNS_copy
                rows.append((address, file, line & _MAX_LINE))
            elif opcode == 2:  # DW_LNS_advance_pc
                step, place = uleb(data, place)
                address = address + step * minimum & (1 << 64) - 1
            elif opcode == 3:  # DW_LNS_advance_line
                step, place = sleb(data, place)
                line += step
            elif opcode == 4:  # DW_LNS_set_file
                file, place = uleb(data, place)
                file &= 0x7FFF_FFFF
            elif opcode == 8:
                address += whole
            elif opcode == 9:  # DW_LNS_fixed_advance_pc
                address += unpack_from(order + "H", data, place)[0]
                place += 2
            else:
                for _ in range(self._operands[opcode - 1]):
                    _, place = uleb(data, place)
            if len(rows) % _OFTEN == _OFTEN - 1:
                self._budget.clock()
                self._budget.check(number + len(rows), _MAX_ROWS, "rows of a line table")
