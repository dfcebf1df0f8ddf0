"""`.eh_frame`: for each instruction of an ELF file, where the caller's registers are.

DWARF 5, section 6.4.1, "Structure of Call Frame Information", as the Linux Standard Base changes it for `.eh_frame`.
"""

from __future__ import annotations

import struct
from struct import unpack_from
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.elf.call_frame_program import NOT_HELD, ROW, UNKNOWN, Program, Registers, Row
from pyebpf.elf.leb128 import sleb, uleb
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.elf.headers import ElfHeaders

#: By `e_machine`, EM_X86_64 and EM_AARCH64: the ABIs' DWARF tables.
_REGISTERS = {62: Registers(7, 6, 16, saved=True), 183: Registers(31, 29, 30, saved=False)}

_MAX_ROWS, _MAX_FUNCTIONS = 1 << 21, 1 << 19
_PADDING = 16  # bytes between functions at most, which nobody runs, so that no row is needed for them
_MUCH = 1 << 14  # bytes of instructions between looks at the clock
_OFTEN = 256  # functions between the places where the caller may pause

# Pointer encodings, DW_EH_PE_*: the low nibble is the format, the next what it is counted from.
_FORMATS = {0x00: "Q", 0x02: "H", 0x03: "I", 0x04: "Q", 0x0A: "h", 0x0B: "i", 0x0C: "q"}
_SIZES = {"Q": 8, "q": 8, "I": 4, "i": 4, "H": 2, "h": 2}
_ABSOLUTE, _RELATIVE, _OMITTED = 0x00, 0x10, 0xFF
_USUAL = 0x1B  # DW_EH_PE_pcrel | DW_EH_PE_sdata4

_START = struct.Struct("=I")  # of a row


class _Common(NamedTuple):
    """A common information entry (CIE): what functions share."""

    place: int
    code_alignment: int
    data_alignment: int
    encoding: int
    augmented: bool
    signal: bool
    initial: bytes


class _Function(NamedTuple):
    """A frame description entry (FDE): a function's addresses and program."""

    start: int
    end: int
    common: _Common
    program: bytes


def call_frames(elf: ElfHeaders) -> Iterator[bytes]:
    """Rows of a file by their addresses, packed as `ROW`, a piece at a time: the caller may pause between two.

    None for a file without `.eh_frame`, or of another machine than x86-64 and arm64. Raises MalformedData, and its
    OverBudget.
    """
    section = elf.section(".eh_frame")
    registers = _REGISTERS.get(elf.machine)
    if section is None or registers is None or not elf.wide or elf.byte_order != "<":
        return
    elf.budget.start()
    reader = _Reader(elf, elf.contents(section), section.address, registers)
    functions: list[_Function] = []
    for function in reader.functions():
        functions.append(function)
        elf.budget.check(len(functions), _MAX_FUNCTIONS, "functions in .eh_frame")
        elf.budget.clock(len(functions))
        if len(functions) % _OFTEN == 0:
            yield b""
    functions.sort(key=lambda function: function.start)
    number = 0
    piece: list[bytes] = []
    end = 0
    for index, function in enumerate(functions):
        if function.start < end:
            continue  # of two that overlap the first
        if function.start > end + _PADDING or not index:
            piece.append(ROW.pack(end, 0, 0, 0, UNKNOWN))
            number += 1
        rows = reader.rows(function)
        number += len(rows)
        elf.budget.check(number, _MAX_ROWS, "rows in .eh_frame")
        if reader.work > _MUCH:
            reader.work = 0
            elf.budget.clock()
        piece += rows
        end = function.end
        if index % _OFTEN == 0:
            yield b"".join(piece)
            piece.clear()
    if functions and end < 1 << 32:
        piece.append(ROW.pack(end, 0, 0, 0, UNKNOWN))
    yield b"".join(piece)


class _Reader:
    """The section's bytes, which any user may have written."""

    def __init__(self, elf: ElfHeaders, data: bytes, address: int, registers: Registers) -> None:
        self._path = elf.path
        self._data = data
        self._address = address
        self._registers = registers
        #: Bytes of instructions since the last look at the clock.
        self.work = 0
        self._common: dict[int, _Common | None] = {}
        #: Rows, without their addresses, counted from a function's start, of programs seen before: many functions
        #: share one.
        self._known: dict[tuple[int, bytes], list[tuple[int, bytes]]] = {}

    def functions(self) -> Iterator[_Function]:
        """The functions in the order of the section; those of unknown encodings are left out."""
        data, place = self._data, 0
        while place + 4 <= len(data):
            (length,) = unpack_from("<I", data, place)
            body = place + 4
            if length == 0:
                return  # the terminator
            if length == 0xFFFF_FFFF or body + length > len(data):
                raise MalformedData(f"{self._path}: an entry of .eh_frame ends behind the section")
            if length >= 4:
                (distance,) = unpack_from("<I", data, body)
                if distance:
                    found = self._function(body, body + length, body - distance)
                    if found is not None:
                        yield found
            place = body + length

    def _function(self, place: int, end: int, common_at: int) -> _Function | None:
        common = self._common_at(common_at)
        if common is None:
            return None
        try:
            if common.encoding == _USUAL:
                start, size = unpack_from("<ii", self._data, place + 4)
                start, place = start + self._address + place + 4, place + 12
            else:
                start, place = self._pointer(place + 4, common.encoding)
                size, place = self._pointer(place, common.encoding & 0x0F)
            if common.augmented:
                length, place = uleb(self._data, place)
                place += length
        except (struct.error, IndexError):
            raise MalformedData(f"{self._path}: an entry of .eh_frame is cut short") from None
        # Sections that the linker left out are at 0; a row holds 32 bits of an address.
        if start <= 0 or size <= 0 or start + size >= 1 << 32 or place > end:
            return None
        return _Function(start, start + size, common, self._data[place:end])

    def _common_at(self, place: int) -> _Common | None:
        if place not in self._common:
            try:
                self._common[place] = self._read_common(place)
            except (struct.error, IndexError):
                raise MalformedData(f"{self._path}: an entry of .eh_frame is cut short") from None
        return self._common[place]

    def _read_common(self, start: int) -> _Common | None:
        if start < 0:
            return None
        data = self._data
        length, zero = unpack_from("<II", data, start)
        end = start + 4 + length
        version, place = data[start + 8], start + 9
        augmentation_end = data.index(b"\0", place) if b"\0" in data[place : place + 16] else -1
        if zero or version not in {1, 3} or augmentation_end < 0 or end > len(data):
            return None
        augmentation = data[place:augmentation_end]
        code, place = uleb(data, augmentation_end + 1)
        alignment, place = sleb(data, place)
        register, place = (data[place], place + 1) if version == 1 else uleb(data, place)
        encoding, signal = _ABSOLUTE, False
        augmented = augmentation[:1] == b"z"
        if augmented:
            size, place = uleb(data, place)
            initial_at = place + size
            for letter in augmentation[1:].decode("latin-1"):
                if letter == "R":
                    encoding, place = data[place], place + 1
                elif letter == "P":
                    _, place = self._pointer(place + 1, data[place] & 0x7F)
                elif letter == "L":
                    place += 1
                elif letter == "S":
                    signal = True
                elif letter != "B":  # arm64's: return addresses are signed with key B
                    break
            place = initial_at
        elif augmentation:
            return None
        if register != self._registers.ra or encoding & 0x0F not in _FORMATS:
            return None
        if encoding & 0xF0 not in {_ABSOLUTE, _RELATIVE}:
            return None
        return _Common(start, code, alignment, encoding, augmented, signal, data[place:end])

    def _pointer(self, place: int, encoding: int) -> tuple[int, int]:
        if encoding == _OMITTED & 0x7F:
            return 0, place
        form = _FORMATS.get(encoding & 0x0F, "Q")
        (value,) = unpack_from(f"<{form}", self._data, place)
        if encoding & 0x70 == _RELATIVE:
            value += self._address + place
        return value & 0xFFFF_FFFF_FFFF_FFFF if form.isupper() else value, place + _SIZES[form]

    def rows(self, function: _Function) -> list[bytes]:
        """Rows of a function, packed; one that says `NOT_HELD` where its program is garbled."""
        key = (function.common.place, function.program)
        found = self._known.get(key)
        if found is None:
            try:
                rows = self._run(function)
            except (struct.error, IndexError, KeyError):
                rows = [Row(0, 0, 0, 0, NOT_HELD)]
            found = self._known[key] = [(row.start, ROW.pack(*row)[_START.size :]) for row in rows]
        start, size = function.start, function.end - function.start
        return [_START.pack(start + distance) + rest for distance, rest in found if distance < size]

    def _run(self, function: _Function) -> list[Row]:
        common = function.common
        program = Program(self._registers, common.code_alignment, common.data_alignment, signal=common.signal)
        program.run(common.initial)
        program.begin()
        program.run(function.program)
        self.work += program.work
        return program.end()
