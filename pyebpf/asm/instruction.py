"""`Instruction`, checked when it is built, `Label`, and `Raw` for bytes that are neither."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, SupportsIndex

from pyebpf.asm.op import JUMPS, SYMBOLIC, Form, Op, Register
from pyebpf.dataclass import dataclass, field
from pyebpf.errors import AssemblyError, check_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.errors import Location

_LOW = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True, init=False, guarded=False)
class Instruction:
    """One instruction: a value, frozen for the type checker.

    op      a row of the table, which says which of the fields below are operands; the others stay as they are
    offset  s16: bytes for memory, slots for jumps (0 is the next instruction)
    imm     s32; u64 for the two-slot forms, where a negative value is taken as its two's complement. In the two-slot
            forms for maps and kernel symbols the lower half is the descriptor or id, the upper half the place in the
            map's value or the BTF descriptor
    symbol  a name still to be replaced by a number: a jump's label, the map of a two-slot load, the function of a call
    where   the source that it stands for; takes no part in equality

    AssemblyError names the operand that is out of range, or given though the operation has none such.
    """

    op: Op
    dst: Register = Register.R0
    src: Register = Register.R0
    offset: int = 0
    imm: int = 0
    symbol: str | None = None
    where: Location | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        op: Op,
        dst: Register = Register.R0,
        src: Register = Register.R0,
        offset: int = 0,
        imm: int = 0,
        symbol: str | None = None,
        where: Location | None = None,
    ) -> None:
        operands = op.operands
        if offset.__class__ is not int:
            offset = integer_operand(op, "offset", offset)
        if (
            dst.__class__ is not Register
            or src.__class__ is not Register
            or (dst and "d" not in operands)
            or (src and "s" not in operands)
            or (offset and ("o" not in operands or not -0x8000 <= offset <= 0x7FFF))
        ):
            raise _refusal(op, dst, src, offset)
        if imm.__class__ is not int:
            imm = integer_operand(op, "imm", imm)
        if imm:
            if "i" in operands:
                if not -0x8000_0000 <= imm <= 0x7FFF_FFFF:
                    raise AssemblyError(f"{op.name}: imm {imm} does not fit 32 bits (-2147483648..2147483647)")
            elif "w" in operands:
                if not -(1 << 63) <= imm < 1 << 64:
                    raise AssemblyError(f"{op.name}: imm {imm} does not fit 64 bits")
                imm &= (1 << 64) - 1
            else:
                raise AssemblyError(f"{op.name}: has no operand imm, but was given {imm}")
        if symbol is not None:
            _check_symbol(op, symbol, offset, imm)
        self.op, self.dst, self.src, self.offset = op, dst, src, offset  # type: ignore[misc]  # nobody else writes them
        self.imm, self.symbol, self.where = imm, symbol, where  # type: ignore[misc]  # as above

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


def integer_operand(op: Op, name: str, value: object) -> int:
    """Convert what stands for an integer. AssemblyError for all else: of a register the number would be taken."""
    if isinstance(value, Register) or not isinstance(value, SupportsIndex):
        raise AssemblyError(f"{op.name}: {name} must be an integer, not {value!r}")
    return int(index(value))


def _refusal(op: Op, dst: object, src: object, offset: int) -> AssemblyError:
    """Which of these operands is wrong."""
    for name, letter, value in (("dst", "d", dst), ("src", "s", src)):
        if not isinstance(value, Register):
            return AssemblyError(f"{op.name}: {name} must be a Register R0 to R10, not {value!r}")
        if value and letter not in op.operands:
            return AssemblyError(f"{op.name}: has no operand {name}, but was given {value.name}")
    if "o" not in op.operands:
        return AssemblyError(f"{op.name}: has no operand offset, but was given {offset}")
    return AssemblyError(f"{op.name}: offset {offset} does not fit 16 bits (-32768..32767)")


def _check_symbol(op: Op, symbol: str, offset: int, imm: int) -> None:
    if op.form not in SYMBOLIC:
        raise AssemblyError(f"{op.name}: takes no symbol, but was given {symbol!r}")
    if not symbol:
        raise AssemblyError(f"{op.name}: the symbol is empty")
    if op.form in (Form.LDDW_MAP, Form.LDDW_KSYM, Form.LDDW_FUNCTION):
        taken = imm & _LOW
    elif op.form in (Form.JUMP_LONG, Form.CALL_LOCAL, Form.CALL_KFUNC):
        taken = imm
    else:
        taken = offset
    if taken:
        raise AssemblyError(f"{op.name}: has both the symbol {symbol!r} and the number {taken} it stands for")


@dataclass(frozen=True, slots=True, guarded=False)
class Label:
    """A name for the place of the instruction that follows it."""

    name: str
    where: Location | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise AssemblyError("a label needs a name")


@dataclass(frozen=True, slots=True)
class Raw:
    """Eight bytes that are no instruction of the table, kept as they are. `note` is for readers of a listing."""

    data: bytes
    where: Location | None = field(default=None, compare=False, repr=False)
    note: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.data) != 8:
            raise AssemblyError(f"a slot has 8 bytes, not {len(self.data)}")

    @property
    def slots(self) -> int:
        """8-byte units that it occupies: 1."""
        return 1


Item = Instruction | Label


def slot_starts(instructions: Sequence[Instruction | Raw]) -> tuple[int, ...]:
    """Slot at which each instruction starts, and one more: the number of slots of all."""
    starts = [0]
    for instruction in instructions:
        starts.append(starts[-1] + instruction.slots)
    return tuple(starts)


def check_items(items: object) -> None:
    """Refuse what is no sequence of instructions, labels and bytes that are neither."""
    check_argument("instructions", items, (list, tuple), "a list of instructions, as assemble() gives")
    for each in items if isinstance(items, list | tuple) else ():
        if not isinstance(each, Instruction | Label | Raw):
            check_argument("instructions", each, Instruction, "a list of instructions, as assemble() gives")
