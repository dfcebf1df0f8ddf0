"""`Instruction`, checked when it is built, and `Label`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyebpf.asm.op import JUMPS, OPERANDS, SYMBOLIC, Form, Op, Register
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.errors import Location

__all__ = ["Instruction", "Item", "Label", "slot_starts"]

_FIXED = {form: tuple(c not in operands for c in "dso") for form, operands in OPERANDS.items()}
_LOW = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: a frozen value.

    op      a row of the table, which says which of the fields below are operands; the others stay as they are
    offset  s16: bytes for memory, slots for jumps (0 is the next instruction)
    imm     s32; u64 for the two-slot forms, where a negative value is taken as its two's complement. In the two-slot
            forms for maps and kernel symbols the lower half is the descriptor or id, the upper half the place in the
            map's value or the BTF descriptor
    symbol  a name still to be replaced by a number: a jump's label, the map of a two-slot load, the function of a call
    where   the Python source that it stands for; takes no part in equality

    AssemblyError names the operand that is out of range, or given though the operation has none such.
    """

    op: Op
    dst: Register = Register.R0
    src: Register = Register.R0
    offset: int = 0
    imm: int = 0
    symbol: str | None = None
    where: Location | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        op = self.op
        form = op.form
        if self.dst.__class__ is not Register:
            raise AssemblyError(f"{op.name}: dst must be a Register R0 to R10, not {self.dst!r}")
        if self.src.__class__ is not Register:
            raise AssemblyError(f"{op.name}: src must be a Register R0 to R10, not {self.src!r}")
        no_dst, no_src, no_offset = _FIXED[form]
        if no_dst and self.dst:
            raise AssemblyError(f"{op.name}: has no operand dst, but was given {self.dst.name}")
        if no_src and self.src:
            raise AssemblyError(f"{op.name}: has no operand src, but was given {self.src.name}")
        if no_offset and self.offset:
            raise AssemblyError(f"{op.name}: has no operand offset, but was given {self.offset}")
        if not -0x8000 <= self.offset <= 0x7FFF:
            raise AssemblyError(f"{op.name}: offset {self.offset} does not fit 16 bits (-32768..32767)")
        imm = self.imm
        if "w" in OPERANDS[form]:
            if imm < 0:
                if imm < -(1 << 63):
                    raise AssemblyError(f"{op.name}: imm {imm} does not fit 64 bits")
                object.__setattr__(self, "imm", imm + (1 << 64))
            elif imm >> 64:
                raise AssemblyError(f"{op.name}: imm {imm} does not fit 64 bits")
        elif imm:
            if "i" not in OPERANDS[form]:
                raise AssemblyError(f"{op.name}: has no operand imm, but was given {imm}")
            if not -0x8000_0000 <= imm <= 0x7FFF_FFFF:
                raise AssemblyError(f"{op.name}: imm {imm} does not fit 32 bits (-2147483648..2147483647)")
        if self.symbol is not None:
            self._check_symbol()

    def _check_symbol(self) -> None:
        op = self.op
        if op.form not in SYMBOLIC:
            raise AssemblyError(f"{op.name}: takes no symbol, but was given {self.symbol!r}")
        if not self.symbol:
            raise AssemblyError(f"{op.name}: the symbol is empty")
        if op.form in (Form.LDDW_MAP, Form.LDDW_KSYM, Form.LDDW_FUNCTION):
            taken = self.imm & _LOW
        elif op.form in (Form.JUMP_LONG, Form.CALL_LOCAL, Form.CALL_KFUNC):
            taken = self.imm
        else:
            taken = self.offset
        if taken:
            raise AssemblyError(f"{op.name}: has both the symbol {self.symbol!r} and the number {taken} it stands for")

    @property
    def slots(self) -> int:
        """8-byte units that it occupies."""
        return self.op.slots

    @property
    def distance(self) -> int | None:
        """Slots from the next instruction to the target of a jump, local call or function load; else None."""
        form = self.op.form
        if form in (Form.JUMP_LONG, Form.CALL_LOCAL):
            return self.imm
        if form in JUMPS:
            return self.offset
        if form is Form.LDDW_FUNCTION:
            low = self.imm & _LOW
            return low - (1 << 32) if low >> 31 else low
        return None

    @property
    def reads(self) -> tuple[Register, ...]:
        """Registers that it reads (a call: all five argument registers, whatever the function takes)."""
        return self._registers(self.op.reads)

    @property
    def writes(self) -> tuple[Register, ...]:
        """Registers that hold a result afterwards."""
        return self._registers(self.op.writes)

    @property
    def clobbers(self) -> tuple[Register, ...]:
        """Registers that are unreadable afterwards."""
        return self._registers(self.op.clobbers)

    def _registers(self, letters: str) -> tuple[Register, ...]:
        return tuple(
            self.dst if letter == "d" else self.src if letter == "s" else Register(int(letter)) for letter in letters
        )


@dataclass(frozen=True, slots=True)
class Label:
    """A name for the place of the instruction that follows it."""

    name: str
    where: Location | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise AssemblyError("a label needs a name")


Item = Instruction | Label


def slot_starts(instructions: Sequence[Instruction]) -> tuple[int, ...]:
    """Slot at which each instruction starts, and one more: the number of slots of all."""
    starts = [0]
    for instruction in instructions:
        starts.append(starts[-1] + instruction.op.slots)
    return tuple(starts)
