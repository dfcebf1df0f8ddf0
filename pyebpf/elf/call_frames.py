"""`.eh_frame`: for each instruction of an ELF file, where the caller's registers are.

DWARF 5, section 6.4, "Call Frame Information", as the Linux Standard Base changes it for `.eh_frame`. Its programs
give a register's rule anywhere in a function; of all registers those three are kept that lead to the next caller: the
stack pointer, the frame pointer and the return address. A `Row` holds from its address to that of the next one.
"""

from __future__ import annotations

import struct
from struct import Struct, unpack_from
from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.elf.headers import ElfHeaders

#: A row in memory: address, offset of the CFA, offsets of the frame pointer and the return address, rules.
ROW = Struct("=IihhI")

# Rules of a row. The canonical frame address (CFA) is the stack pointer's value before the call.
#: The CFA is counted from the frame pointer, else from the stack pointer; it is what memory holds there.
CFA_OF_FP, CFA_IN_MEMORY = 1, 1 << 1
#: The CFA as in the procedure linkage table of x86-64: 16 bytes above the stack pointer from its 12th byte on, else 8.
CFA_OF_PLT = 1 << 2
#: Where the caller's frame pointer was saved, if it was: counted from the CFA, the stack pointer or the frame pointer.
FP_AT_CFA, FP_AT_SP, FP_AT_FP = 1 << 3, 1 << 4, 1 << 5
#: It was not saved, or where no row can say: callers that need it cannot be found.
FP_LOST = 1 << 11
#: The return address is counted from the stack pointer, or still in its register; else counted from the CFA.
RA_AT_SP, RA_IN_REGISTER = 1 << 6, 1 << 7
#: The caller was interrupted by a signal: it goes on at the return address, and not behind a call.
SIGNAL = 1 << 8
#: Nobody has called this function; and nothing is known here, or nothing that a row can hold.
OUTERMOST, UNKNOWN = 1 << 9, 1 << 10

#: Numbers of the stack pointer, the frame pointer and the return address, by `e_machine`: the ABIs' DWARF tables.
_REGISTERS = {62: (7, 6, 16), 183: (31, 29, 30)}
_X86_64 = 62

_MAX_ROWS = 1 << 21
_MAX_DEPTH, _MAX_INSTRUCTIONS = 64, 1 << 16  # of saved states, and of one function's
_PADDING = 16  # bytes between functions at most, which nobody runs, so that no row is needed for them
_OFTEN = 256  # functions between the places where the caller may pause

# Pointer encodings, DW_EH_PE_*: the low nibble is the format, the next what it is counted from.
_FORMATS = {0x00: "Q", 0x02: "H", 0x03: "I", 0x04: "Q", 0x0A: "h", 0x0B: "i", 0x0C: "q"}
_SIZES = {"Q": 8, "q": 8, "I": 4, "i": 4, "H": 2, "h": 2}
_ABSOLUTE, _RELATIVE, _OMITTED = 0x00, 0x10, 0xFF

_PLT = bytes((0x77, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22))
"""DW_OP_breg7 (rsp) 8; breg16 (rip) 0; lit15; and; lit11; ge; lit3; shl; plus"""
_BREG0, _BREG31, _DEREF = 0x70, 0x8F, 0x06


class Row(NamedTuple):
    """Where the caller's registers are, from the virtual address `start` on: offsets in bytes, rules as above."""

    start: int
    cfa: int
    fp: int
    ra: int
    rules: int


class _Common(NamedTuple):
    """A common information entry (CIE): what functions share."""

    code_alignment: int
    data_alignment: int
    return_register: int
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


class _State:
    """Rules as a program has set them; None is one that a row cannot hold."""

    __slots__ = ("cfa", "fp", "ra")

    def __init__(self) -> None:
        self.cfa: tuple[int, int] | None = None  # rules, offset
        self.fp: tuple[int, int] | None = (0, 0)
        self.ra: tuple[int, int] | None = (RA_IN_REGISTER, 0)

    def copy(self) -> _State:
        other = _State()
        other.cfa, other.fp, other.ra = self.cfa, self.fp, self.ra
        return other


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
        elf.budget.check(len(functions), _MAX_ROWS, "functions in .eh_frame")
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
        piece += [ROW.pack(*row) for row in rows]
        end = function.end
        if index % _OFTEN == 0:
            elf.budget.clock()
            yield b"".join(piece)
            piece.clear()
    if functions and end < 1 << 32:
        piece.append(ROW.pack(end, 0, 0, 0, UNKNOWN))
    yield b"".join(piece)


class _Reader:
    """The section's bytes, which any user may have written."""

    def __init__(self, elf: ElfHeaders, data: bytes, address: int, registers: tuple[int, int, int]) -> None:
        self._path = elf.path
        self._data = data
        self._address = address
        self._x86 = elf.machine == _X86_64
        self._sp, self._fp, self._ra = registers
        self._common: dict[int, _Common | None] = {}
        #: Rows counted from a function's start, of programs seen before: many functions share one.
        self._known: dict[tuple[_Common, bytes], list[Row]] = {}

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
            start, place = self._pointer(place + 4, common.encoding)
            size, place = self._pointer(place, common.encoding & 0x0F)
            if common.augmented:
                length, place = _uleb(self._data, place)
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
        code, place = _uleb(data, augmentation_end + 1)
        alignment, place = _sleb(data, place)
        register, place = (data[place], place + 1) if version == 1 else _uleb(data, place)
        encoding, signal = _ABSOLUTE, False
        augmented = augmentation[:1] == b"z"
        if augmented:
            size, place = _uleb(data, place)
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
        if encoding & 0x0F not in _FORMATS or encoding & 0xF0 not in {_ABSOLUTE, _RELATIVE}:
            return None
        return _Common(code, alignment, register, encoding, augmented, signal, data[place:end])

    def _pointer(self, place: int, encoding: int) -> tuple[int, int]:
        if encoding == _OMITTED & 0x7F:
            return 0, place
        form = _FORMATS.get(encoding & 0x0F, "Q")
        (value,) = unpack_from(f"<{form}", self._data, place)
        if encoding & 0x70 == _RELATIVE:
            value += self._address + place
        return value & 0xFFFF_FFFF_FFFF_FFFF if form.isupper() else value, place + _SIZES[form]

    def rows(self, function: _Function) -> list[Row]:
        """Rows of a function; one that says `UNKNOWN` where its program is garbled."""
        key = (function.common, function.program)
        found = self._known.get(key)
        if found is None:
            try:
                found = self._run(function)
            except (struct.error, IndexError, KeyError):
                found = [Row(0, 0, 0, 0, UNKNOWN)]
            self._known[key] = found
        start, size = function.start, function.end - function.start
        return [Row(start + row.start, *row[1:]) for row in found if row.start < size]

    def _run(self, function: _Function) -> list[Row]:
        program = _Program(self, function.common)
        if self._x86:
            program.state.ra = None  # x86-64 has no register for it
        program.run(function.common.initial)
        program.begin()
        program.run(function.program)
        return program.end()

    def expression(self, code: bytes) -> tuple[int, int, bool] | None:
        """Register, offset and whether memory is read, of the expressions that a row can hold."""
        if not code or not _BREG0 <= code[0] <= _BREG31:
            return None
        offset, place = _sleb(code, 1)
        if code[place:] == b"":
            return code[0] - _BREG0, offset, False
        return (code[0] - _BREG0, offset, True) if code[place:] == bytes((_DEREF,)) else None

    def cfa(self, register: int, offset: int) -> tuple[int, int] | None:
        """The rule for a CFA that is counted from a register."""
        if register == self._sp:
            return 0, offset
        return (CFA_OF_FP, offset) if register == self._fp else None

    def cfa_of(self, code: bytes) -> tuple[int, int] | None:
        """The rule for a CFA that an expression gives."""
        if code == _PLT and self._x86:
            return CFA_OF_PLT, 0
        found = self.expression(code)
        if found is None:
            return None
        rule = self.cfa(found[0], found[1])
        return None if rule is None else (rule[0] | (CFA_IN_MEMORY if found[2] else 0), rule[1])

    def save(self, state: _State, register: int, offset: int | None) -> None:
        """A register is saved at an offset from the CFA; None: in another register, or lost."""
        if register == self._fp:
            state.fp = None if offset is None else (FP_AT_CFA, offset)
        elif register == self._ra:
            state.ra = None if offset is None else (0, offset)

    def save_at(self, state: _State, register: int, code: bytes) -> None:
        """A register is saved at the address that an expression gives."""
        found = self.expression(code)
        rule = None
        if found is not None and not found[2]:
            rule = {self._sp: FP_AT_SP, self._fp: FP_AT_FP}.get(found[0])
        place = None if rule is None or found is None else found[1]
        if register == self._fp:
            state.fp = None if rule is None or place is None else (rule, place)
        elif register == self._ra:
            state.ra = (RA_AT_SP, place) if rule == FP_AT_SP and place is not None else None

    def restore(self, state: _State, register: int, initial: _State) -> None:
        """A register has again the rule that it had at the function's entry."""
        if register == self._fp:
            state.fp = initial.fp
        elif register == self._ra:
            state.ra = initial.ra

    def outermost(self, register: int) -> bool:
        """Whether a register that is undefined says that there is no caller."""
        return register == self._ra


class _Program:
    """A run of call frame instructions: `found` has the rows so far, from `place` bytes behind the start on."""

    def __init__(self, reader: _Reader, common: _Common) -> None:
        self._reader = reader
        self._common = common
        self._saved: list[_State] = []
        self._outermost = False
        self._initial = _State()
        self.state = _State()
        self.found: list[Row] = []
        self.place = 0

    def run(self, code: bytes) -> None:
        """Run instructions. Raises struct.error or IndexError where they are garbled."""
        alignment, save = self._common.data_alignment, self._reader.save
        place, count = 0, 0
        while place < len(code):
            count += 1
            if count > _MAX_INSTRUCTIONS:
                raise IndexError
            opcode = code[place]
            place += 1
            high, low = opcode & 0xC0, opcode & 0x3F
            if high == 0x40:  # DW_CFA_advance_loc
                self._advance(low)
            elif high == 0x80:  # DW_CFA_offset
                offset, place = _uleb(code, place)
                save(self.state, low, offset * alignment)
            elif high == 0xC0:  # DW_CFA_restore
                self._restore(low)
            else:
                run, operands = _INSTRUCTIONS[opcode]
                values = []
                for operand in operands:
                    value, place = operand(code, place)
                    values.append(value)
                run(self, *values)

    def begin(self) -> None:
        """The instructions so far were those that functions share: what they have set is what `restore` gives back."""
        self._initial = self.state.copy()
        self.found.clear()
        self.place = 0

    def end(self) -> list[Row]:
        """The rows, once the function's last one is closed."""
        self._add()
        return self.found

    def _add(self) -> None:
        """Close the row that ends here."""
        row = Row(self.place, *self._rule())
        if self.found and self.found[-1].start == self.place:
            self.found.pop()
        if not self.found or self.found[-1][1:] != row[1:]:
            self.found.append(row)

    def _rule(self) -> tuple[int, int, int, int]:
        signal = SIGNAL if self._common.signal else 0
        if self._outermost:
            return 0, 0, 0, OUTERMOST
        cfa, fp, ra = self.state.cfa, self.state.fp, self.state.ra
        if cfa is None or ra is None:
            return 0, 0, 0, UNKNOWN
        if fp is None:
            fp = (FP_LOST, 0)
        if not (-1 << 31 <= cfa[1] < 1 << 31 and -1 << 15 <= fp[1] < 1 << 15 and -1 << 15 <= ra[1] < 1 << 15):
            return 0, 0, 0, UNKNOWN
        return cfa[1], fp[1], ra[1], cfa[0] | fp[0] | ra[0] | signal

    # Instructions --------------------------------------------------------------------------------------------------

    def _nothing(self, *_: object) -> None:
        pass

    def _advance(self, delta: int) -> None:
        self._add()
        self.place += delta * self._common.code_alignment

    def _def_cfa(self, register: int, offset: int) -> None:
        self.state.cfa = self._reader.cfa(register, offset)

    def _def_cfa_sf(self, register: int, offset: int) -> None:
        self._def_cfa(register, offset * self._common.data_alignment)

    def _def_cfa_register(self, register: int) -> None:
        cfa = self.state.cfa
        self.state.cfa = None if cfa is None else self._reader.cfa(register, cfa[1])

    def _def_cfa_offset(self, offset: int) -> None:
        cfa = self.state.cfa
        self.state.cfa = None if cfa is None else (cfa[0] & CFA_OF_FP, offset)

    def _def_cfa_offset_sf(self, offset: int) -> None:
        self._def_cfa_offset(offset * self._common.data_alignment)

    def _def_cfa_expression(self, code: bytes) -> None:
        self.state.cfa = self._reader.cfa_of(code)

    def _offset(self, register: int, offset: int) -> None:
        self._reader.save(self.state, register, offset * self._common.data_alignment)

    def _negative_offset(self, register: int, offset: int) -> None:
        self._offset(register, -offset)

    def _elsewhere(self, register: int, *_: object) -> None:
        self._reader.save(self.state, register, None)

    def _expression(self, register: int, code: bytes) -> None:
        self._reader.save_at(self.state, register, code)

    def _undefined(self, register: int) -> None:
        self._outermost = self._outermost or self._reader.outermost(register)
        self._elsewhere(register)

    def _same_value(self, register: int) -> None:
        self._reader.restore(self.state, register, _State())

    def _restore(self, register: int) -> None:
        self._reader.restore(self.state, register, self._initial)

    def _remember_state(self) -> None:
        if len(self._saved) == _MAX_DEPTH:
            raise IndexError
        self._saved.append(self.state.copy())

    def _restore_state(self) -> None:
        self.state = self._saved.pop()


def _uleb(data: bytes, place: int) -> tuple[int, int]:
    """An unsigned LEB128 number of at most ten bytes, and the place behind it."""
    value = data[place]
    if value < 0x80:
        return value, place + 1
    value &= 0x7F
    for shift in range(7, 70, 7):
        place += 1
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
    raise IndexError


def _sleb(data: bytes, place: int) -> tuple[int, int]:
    """A signed LEB128 number of at most ten bytes, and the place behind it."""
    value, end = _uleb(data, place)
    bits = 7 * (end - place)
    return (value - (1 << bits) if value >> (bits - 1) & 1 else value), end


def _block(data: bytes, place: int) -> tuple[bytes, int]:
    """An expression: its length, and so many bytes."""
    size, place = _uleb(data, place)
    return data[place : place + size], place + size


def _fixed(form: str, size: int) -> Callable[[bytes, int], tuple[int, int]]:
    return lambda data, place: (unpack_from(form, data, place)[0], place + size)


#: DW_CFA_*, and those of GNU's that compilers write: what runs, and its operands.
_INSTRUCTIONS: dict[int, tuple[Callable[..., None], tuple[Callable[[bytes, int], tuple[Any, int]], ...]]] = {
    0x00: (_Program._nothing, ()),  # nop
    0x02: (_Program._advance, (_fixed("<B", 1),)),  # advance_loc1
    0x03: (_Program._advance, (_fixed("<H", 2),)),  # advance_loc2
    0x04: (_Program._advance, (_fixed("<I", 4),)),  # advance_loc4
    0x05: (_Program._offset, (_uleb, _uleb)),  # offset_extended
    0x06: (_Program._restore, (_uleb,)),  # restore_extended
    0x07: (_Program._undefined, (_uleb,)),  # undefined
    0x08: (_Program._same_value, (_uleb,)),  # same_value
    0x09: (_Program._elsewhere, (_uleb, _uleb)),  # register
    0x0A: (_Program._remember_state, ()),  # remember_state
    0x0B: (_Program._restore_state, ()),  # restore_state
    0x0C: (_Program._def_cfa, (_uleb, _uleb)),  # def_cfa
    0x0D: (_Program._def_cfa_register, (_uleb,)),  # def_cfa_register
    0x0E: (_Program._def_cfa_offset, (_uleb,)),  # def_cfa_offset
    0x0F: (_Program._def_cfa_expression, (_block,)),  # def_cfa_expression
    0x10: (_Program._expression, (_uleb, _block)),  # expression
    0x11: (_Program._offset, (_uleb, _sleb)),  # offset_extended_sf
    0x12: (_Program._def_cfa_sf, (_uleb, _sleb)),  # def_cfa_sf
    0x13: (_Program._def_cfa_offset_sf, (_sleb,)),  # def_cfa_offset_sf
    0x14: (_Program._elsewhere, (_uleb, _uleb)),  # val_offset
    0x15: (_Program._elsewhere, (_uleb, _sleb)),  # val_offset_sf
    0x16: (_Program._elsewhere, (_uleb, _block)),  # val_expression
    0x2D: (_Program._nothing, ()),  # AARCH64_negate_ra_state: the return address is signed from here on
    0x2E: (_Program._nothing, (_uleb,)),  # GNU_args_size
    0x2F: (_Program._negative_offset, (_uleb, _uleb)),  # GNU_negative_offset_extended
}
