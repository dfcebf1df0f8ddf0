"""Instructions to bytes and back, RFC 9669 section 3.1: opcode, two register nibbles, s16 offset, s32 imm."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal

from pyebpf.asm.instruction import Instruction
from pyebpf.asm.op import REGISTERS, Register
from pyebpf.asm.opcodes import BY_CODE
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.asm.op import Op

__all__ = ["decode", "encode"]

ByteOrder = Literal["little", "big"]
_SLOT = {"little": struct.Struct("<BBhI"), "big": struct.Struct(">BBhI")}
_LOW = 0xFFFF_FFFF


def encode(instructions: Iterable[Instruction], byteorder: ByteOrder = "little") -> bytes:
    """The bytes of a program, 8 a slot.

    A symbol must have been resolved (`layout` for jumps, `resolve` for maps and functions): else AssemblyError.
    """
    pack = _SLOT[byteorder].pack
    dst_shift, src_shift = (0, 4) if byteorder == "little" else (4, 0)
    out = []
    for index, instruction in enumerate(instructions):
        if instruction.symbol is not None:
            raise AssemblyError(
                f"instruction {index}, {instruction.op.name}: {instruction.symbol!r} is not resolved"
                " (layout() fills in labels, resolve() maps and functions)"
            )
        op = instruction.op
        operands = op.operands
        src = instruction.src if "s" in operands else op.src
        offset = instruction.offset if "o" in operands else op.offset
        registers = instruction.dst << dst_shift | src << src_shift
        if "w" in operands:
            out.append(pack(op.code, registers, offset, instruction.imm & _LOW))
            out.append(pack(0, 0, 0, instruction.imm >> 32))
        else:
            imm = instruction.imm if "i" in operands else op.imm
            out.append(pack(op.code, registers, offset, imm & _LOW))
    return b"".join(out)


def _row(code: int, dst: int, src: int, offset: int, imm: int) -> Op | None:
    for op in BY_CODE.get(code, ()):
        operands = op.operands
        if (
            ("d" in operands or dst == 0)
            and ("s" in operands or src == op.src)
            and ("o" in operands or offset == op.offset)
            and ("i" in operands or "w" in operands or imm == op.imm)
        ):
            return op
    return None


def decode(data: bytes, byteorder: ByteOrder = "little") -> tuple[Instruction, ...]:
    """The instructions that these bytes are; encoding them gives the same bytes.

    AssemblyError names the slot that is no instruction: an unknown opcode, a register above R10, a value in a field
    that the operation does not use, half a two-slot instruction.
    """
    if len(data) % 8:
        raise AssemblyError(f"{len(data)} bytes are no whole number of 8-byte instructions")
    high_is_src = byteorder == "little"
    slots = _SLOT[byteorder].iter_unpack(data)
    out: list[Instruction] = []
    for index, (code, registers, offset, raw) in enumerate(slots):
        high, low = registers >> 4, registers & 15
        dst, src = (low, high) if high_is_src else (high, low)
        imm = raw - (1 << 32) if raw >> 31 else raw
        op = _row(code, dst, src, offset, imm)
        if op is None or dst > Register.R10 or ("s" in op.operands and src > Register.R10):
            position = index + sum(instruction.op.slots - 1 for instruction in out)
            raise AssemblyError(
                f"slot {position}: no instruction has opcode {code:#04x}, dst {dst}, src {src},"
                f" offset {offset}, imm {imm}"
            )
        operands = op.operands
        if "w" in operands:
            second = next(slots, None)
            if second is None or second[:3] != (0, 0, 0):
                position = index + sum(instruction.op.slots - 1 for instruction in out)
                raise AssemblyError(f"slot {position}: {op.name} lacks its second half")
            imm = raw | second[3] << 32
        out.append(
            Instruction(
                op,
                REGISTERS[dst],
                REGISTERS[src] if "s" in operands else Register.R0,
                offset if "o" in operands else 0,
                imm if "i" in operands or "w" in operands else 0,
            )
        )
    return tuple(out)
