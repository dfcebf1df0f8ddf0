"""What several fuzz targets make their seeds from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.asm import Instruction, Register

if TYPE_CHECKING:
    from pyebpf.asm import Op

NUMBERS = (0, -1, 4, 0x7FFF, -0x8000, 8)
WIDE = (0, (1 << 64) - 1, 1 << 32, 0x1234_5678_9ABC_DEF0)


def instruction_of(op: Op, number: int) -> Instruction:
    """An instruction of that row; `number` varies its operands."""
    operands = op.operands
    return Instruction(
        op,
        Register(number % 11) if "d" in operands else Register.R0,
        Register((number + 3) % 11) if "s" in operands else Register.R0,
        NUMBERS[number % len(NUMBERS)] if "o" in operands else 0,
        WIDE[number % len(WIDE)] if "w" in operands else NUMBERS[number // 2 % len(NUMBERS)] if "i" in operands else 0,
    )
