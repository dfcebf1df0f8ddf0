"""Call frame instructions: the programs that give, for each instruction of a function, the rules of registers.

DWARF 5, section 6.4.2. Of all registers those three are kept that lead to the caller: the stack pointer, the frame
pointer and the return address. A `Row` holds from its address to that of the next one.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyebpf.elf.leb128 import sleb, uleb

if TYPE_CHECKING:
    from collections.abc import Callable

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
#: Nobody has called this function; nothing is known here; and what is known no row can hold.
OUTERMOST, UNKNOWN, NOT_HELD = 1 << 9, 1 << 10, 1 << 12
#: The CFA is 8 bytes above what memory holds, as OpenSSL's assembly has it.
CFA_ABOVE_MEMORY = 1 << 13

_MAX_DEPTH, _MAX_PROGRAM = 64, 1 << 16  # saved states, and bytes of one function's program

_PLT = bytes((0x77, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22))
"""DW_OP_breg7 (rsp) 8; breg16 (rip) 0; lit15; and; lit11; ge; lit3; shl; plus"""
_BREG0, _BREG31, _DEREF = 0x70, 0x8F, 0x06
_ABOVE = bytes((_DEREF, 0x23, 8))
"""DW_OP_deref; plus_uconst 8"""


class Row(NamedTuple):
    """Where the caller's registers are, from the virtual address `start` on: offsets in bytes, rules as above."""

    start: int
    cfa: int
    fp: int
    ra: int
    rules: int


class Registers(NamedTuple):
    """Numbers that DWARF gives registers: the stack pointer, the frame pointer and the return address.

    `saved`: calls put the return address into memory, and there is no register for it, as on x86-64.
    """

    sp: int
    fp: int
    ra: int
    saved: bool


#: Rules of a register, and the offset that they count; None is one that a row cannot hold.
_Rule: TypeAlias = "tuple[int, int] | None"


class _State:
    """Rules as a program has set them; None is one that a row cannot hold."""

    __slots__ = ("cfa", "fp", "ra")

    def __init__(self, ra: _Rule) -> None:
        self.cfa: _Rule = None
        self.fp: _Rule = (0, 0)
        self.ra = ra

    def copy(self) -> _State:
        other = _State(self.ra)
        other.cfa, other.fp = self.cfa, self.fp
        return other


class Program:
    """A run of call frame instructions, from a function's start on."""

    def __init__(self, registers: Registers, code_alignment: int, data_alignment: int, *, signal: bool) -> None:
        self._registers = registers
        self._code_alignment, self._data_alignment = code_alignment, data_alignment
        self._signal = SIGNAL if signal else 0
        self._saved: list[_State] = []
        self._outermost = False
        #: Where nothing was said; what functions share, and what holds now.
        self._unset = self._initial = _State(None if registers.saved else (RA_IN_REGISTER, 0))
        self.state = self._unset.copy()
        self._found: list[tuple[int, _Rule, _Rule, _Rule]] = []
        self._place = 0
        #: Bytes of instructions so far.
        self.work = 0

    def run(self, code: bytes) -> None:
        """Run instructions. Raises struct.error or IndexError where they are garbled."""
        alignment, save = self._data_alignment, self._save
        place, end = 0, len(code)
        if end > _MAX_PROGRAM:
            raise IndexError
        self.work += end
        while place < end:
            opcode = code[place]
            place += 1
            high, low = opcode & 0xC0, opcode & 0x3F
            if high == 0x40:  # DW_CFA_advance_loc
                self._add()
                self._place += low * self._code_alignment
            elif high == 0x80:  # DW_CFA_offset
                offset, place = uleb(code, place)
                save(low, offset * alignment)
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
        self._found.clear()
        self._place = 0

    def end(self) -> list[Row]:
        """The rows, once the function's last one is closed."""
        self._add()
        rows: list[Row] = []
        for start, *rules in self._found:
            row = Row(start, *self._rule(*rules))
            if rows and rows[-1].start == start:
                rows.pop()
            if not rows or rows[-1][1:] != row[1:]:
                rows.append(row)
        return rows

    def _add(self) -> None:
        """Close the row that ends here."""
        state = self.state
        self._found.append((self._place, state.cfa, state.fp, state.ra))

    def _rule(self, cfa: _Rule, fp: _Rule, ra: _Rule) -> tuple[int, int, int, int]:
        if self._outermost:
            return 0, 0, 0, OUTERMOST
        if cfa is None or ra is None:
            return 0, 0, 0, NOT_HELD
        if fp is None:
            fp = (FP_LOST, 0)
        if not (-1 << 31 <= cfa[1] < 1 << 31 and -1 << 15 <= fp[1] < 1 << 15 and -1 << 15 <= ra[1] < 1 << 15):
            return 0, 0, 0, NOT_HELD
        return cfa[1], fp[1], ra[1], cfa[0] | fp[0] | ra[0] | self._signal

    # Instructions --------------------------------------------------------------------------------------------------

    def _nothing(self, *_: object) -> None:
        pass

    def _advance(self, delta: int) -> None:
        self._add()
        self._place += delta * self._code_alignment

    def _def_cfa(self, register: int, offset: int) -> None:
        self.state.cfa = self._cfa(register, offset)

    def _def_cfa_sf(self, register: int, offset: int) -> None:
        self._def_cfa(register, offset * self._data_alignment)

    def _def_cfa_register(self, register: int) -> None:
        cfa = self.state.cfa
        self.state.cfa = None if cfa is None else self._cfa(register, cfa[1])

    def _def_cfa_offset(self, offset: int) -> None:
        cfa = self.state.cfa
        self.state.cfa = None if cfa is None else (cfa[0] & CFA_OF_FP, offset)

    def _def_cfa_offset_sf(self, offset: int) -> None:
        self._def_cfa_offset(offset * self._data_alignment)

    def _def_cfa_expression(self, code: bytes) -> None:
        self.state.cfa = self._cfa_of(code)

    def _offset(self, register: int, offset: int) -> None:
        self._save(register, offset * self._data_alignment)

    def _negative_offset(self, register: int, offset: int) -> None:
        self._offset(register, -offset)

    def _elsewhere(self, register: int, *_: object) -> None:
        self._save(register, None)

    def _expression(self, register: int, code: bytes) -> None:
        self._save_at(register, code)

    def _undefined(self, register: int) -> None:
        self._outermost = self._outermost or register == self._registers.ra
        self._elsewhere(register)

    def _same_value(self, register: int) -> None:
        self._give(register, self._unset)

    def _restore(self, register: int) -> None:
        self._give(register, self._initial)

    def _remember_state(self) -> None:
        if len(self._saved) == _MAX_DEPTH:
            raise IndexError
        self._saved.append(self.state.copy())

    def _restore_state(self) -> None:
        self.state = self._saved.pop()

    # Rules ---------------------------------------------------------------------------------------------------------

    def _cfa(self, register: int, offset: int) -> _Rule:
        """The rule for a CFA that is counted from a register."""
        if register == self._registers.sp:
            return 0, offset
        return (CFA_OF_FP, offset) if register == self._registers.fp else None

    def _cfa_of(self, code: bytes) -> _Rule:
        """The rule for a CFA that an expression gives."""
        if code == _PLT and self._registers.saved:
            return CFA_OF_PLT, 0
        above = code[-len(_ABOVE) :] == _ABOVE
        found = _expression(code[:-2] if above else code)
        rule = None if found is None else self._cfa(found[0], found[1])
        if found is None or rule is None:
            return None
        memory = CFA_IN_MEMORY | (CFA_ABOVE_MEMORY if above else 0)
        return rule[0] | (memory if found[2] else 0), rule[1]

    def _save(self, register: int, offset: int | None) -> None:
        """A register is saved at an offset from the CFA; None: in another register, or lost."""
        if register == self._registers.fp:
            self.state.fp = None if offset is None else (FP_AT_CFA, offset)
        elif register == self._registers.ra:
            self.state.ra = None if offset is None else (0, offset)

    def _save_at(self, register: int, code: bytes) -> None:
        """A register is saved at the address that an expression gives."""
        base, offset, deref = _expression(code) or (-1, 0, False)
        rule = None if deref else {self._registers.sp: FP_AT_SP, self._registers.fp: FP_AT_FP}.get(base)
        if register == self._registers.fp:
            self.state.fp = None if rule is None else (rule, offset)
        elif register == self._registers.ra:
            self.state.ra = (RA_AT_SP, offset) if rule == FP_AT_SP else None

    def _give(self, register: int, other: _State) -> None:
        """A register has the rule that it has in another state."""
        if register == self._registers.fp:
            self.state.fp = other.fp
        elif register == self._registers.ra:
            self.state.ra = other.ra


def _expression(code: bytes) -> tuple[int, int, bool] | None:
    """Register, offset and whether memory is read, of the expressions that a row can hold."""
    if not code or not _BREG0 <= code[0] <= _BREG31:
        return None
    offset, end = sleb(code, 1)
    if code[end:] in (b"", bytes((_DEREF,))):
        return code[0] - _BREG0, offset, end < len(code)
    return None


def _block(data: bytes, place: int) -> tuple[bytes, int]:
    """An expression: its length, and so many bytes."""
    size, place = uleb(data, place)
    return data[place : place + size], place + size


def _fixed(form: str, size: int) -> Callable[[bytes, int], tuple[int, int]]:
    return lambda data, place: (unpack_from(form, data, place)[0], place + size)


#: DW_CFA_*, and those of GNU's that compilers write: what runs, and its operands.
_INSTRUCTIONS: dict[int, tuple[Callable[..., None], tuple[Callable[[bytes, int], tuple[Any, int]], ...]]] = {
    0x00: (Program._nothing, ()),  # nop
    0x02: (Program._advance, (_fixed("<B", 1),)),  # advance_loc1
    0x03: (Program._advance, (_fixed("<H", 2),)),  # advance_loc2
    0x04: (Program._advance, (_fixed("<I", 4),)),  # advance_loc4
    0x05: (Program._offset, (uleb, uleb)),  # offset_extended
    0x06: (Program._restore, (uleb,)),  # restore_extended
    0x07: (Program._undefined, (uleb,)),  # undefined
    0x08: (Program._same_value, (uleb,)),  # same_value
    0x09: (Program._elsewhere, (uleb, uleb)),  # register
    0x0A: (Program._remember_state, ()),  # remember_state
    0x0B: (Program._restore_state, ()),  # restore_state
    0x0C: (Program._def_cfa, (uleb, uleb)),  # def_cfa
    0x0D: (Program._def_cfa_register, (uleb,)),  # def_cfa_register
    0x0E: (Program._def_cfa_offset, (uleb,)),  # def_cfa_offset
    0x0F: (Program._def_cfa_expression, (_block,)),  # def_cfa_expression
    0x10: (Program._expression, (uleb, _block)),  # expression
    0x11: (Program._offset, (uleb, sleb)),  # offset_extended_sf
    0x12: (Program._def_cfa_sf, (uleb, sleb)),  # def_cfa_sf
    0x13: (Program._def_cfa_offset_sf, (sleb,)),  # def_cfa_offset_sf
    0x14: (Program._elsewhere, (uleb, uleb)),  # val_offset
    0x15: (Program._elsewhere, (uleb, sleb)),  # val_offset_sf
    0x16: (Program._elsewhere, (uleb, _block)),  # val_expression
    0x2D: (Program._nothing, ()),  # AARCH64_negate_ra_state: the return address is signed from here on
    0x2E: (Program._nothing, (uleb,)),  # GNU_args_size
    0x2F: (Program._negative_offset, (uleb, uleb)),  # GNU_negative_offset_extended
}
