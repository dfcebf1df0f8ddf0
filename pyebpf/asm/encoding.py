"""Instructions to bytes and back, RFC 9669 section 3.1: opcode, two register nibbles, s16 offset, s32 imm."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, overload

from pyebpf.asm.instruction import Instruction, Raw
from pyebpf.asm.op import REGISTERS, Register
from pyebpf.asm.opcodes import BY_CODE
from pyebpf.errors import AssemblyError, check_argument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.asm.op import Op

ByteOrder = Literal["little", "big"]
_PACK = {"little": struct.Struct("<BBhI").pack, "big": struct.Struct(">BBhI").pack}
_UNPACK = {"little": struct.Struct("<BBhi").iter_unpack, "big": struct.Struct(">BBhi").iter_unpack}
_LOW = 0xFFFF_FFFF
_SCRATCH = 11  # the kernel's own register

_Row = tuple["Op", bool, int | None, int | None, int | None, bool]


def encode(instructions: Iterable[Instruction | Raw], byteorder: ByteOrder = "little") -> bytes:
    """The bytes of a program, 8 a slot.

    A symbol must have been resolved (`layout` for jumps, `resolve` for maps and functions): else AssemblyError.
    """
    pack = _PACK[byteorder]
    dst_shift, src_shift = (0, 4) if byteorder == "little" else (4, 0)
    out = []
    for index, instruction in enumerate(instructions):
        if instruction.__class__ is Raw:
            out.append(instruction.data)
            continue
        if not isinstance(instruction, Instruction):
            raise AssemblyError(f"item {index} is a label: layout() replaces labels by distances")
        if instruction.symbol is not None:
            raise AssemblyError(
                f"instruction {index}, {instruction.op.name}: {instruction.symbol!r} is not resolved"
                " (layout() fills in labels, resolve() maps and functions)",
                instruction.where,
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


def _row(op: Op) -> _Row:
    """A row as the decoder uses it: the operation, whether dst is free, the fixed src, offset and imm, two slots."""
    operands = op.operands
    return (
        op,
        "d" in operands,
        None if "s" in operands else op.src,
        None if "o" in operands else op.offset,
        None if "i" in operands or "w" in operands else op.imm,
        "w" in operands,
    )


@cache
def _rows() -> tuple[tuple[_Row, ...], ...]:
    """Each opcode's rows, those with a fixed field in order before the rest. Made when something is decoded."""
    return tuple(tuple(map(_row, BY_CODE.get(code, ()))) for code in range(256))


# A register nibble as a register; 11 to 15 are none.
_NIBBLES: tuple[Register | None, ...] = (*REGISTERS, None, None, None, None, None)


@cache
def _pairs(byteorder: ByteOrder) -> tuple[tuple[Register | None, Register | None], ...]:
    """The registers of each register byte: dst, src."""
    low = tuple((_NIBBLES[byte & 15], _NIBBLES[byte >> 4]) for byte in range(256))
    return low if byteorder == "little" else tuple((src, dst) for dst, src in low)


@overload
def decode(data: bytes, byteorder: ByteOrder = ..., *, raw: Literal[False] = ...) -> tuple[Instruction, ...]: ...
@overload
def decode(data: bytes, byteorder: ByteOrder = ..., *, raw: Literal[True]) -> tuple[Instruction | Raw, ...]: ...
def decode(data: bytes, byteorder: ByteOrder = "little", *, raw: bool = False) -> tuple[Any, ...]:
    """The instructions that these bytes are; encoding them gives the same bytes.

    With `raw`, each slot that is not an instruction becomes a `Raw`. Else AssemblyError names it: an unknown opcode, a
    register above R10, a value in a field that the operation does not use, half a two-slot instruction.
    """
    check_argument("data", data, (bytes, bytearray, memoryview), "bytes")
    if len(data) % 8:
        raise AssemblyError(f"{len(data)} bytes are no whole number of 8-byte instructions")
    pairs, rows = _pairs(byteorder), _rows()
    r0 = Register.R0
    out: list[Instruction | Raw] = []
    append = out.append
    slots = enumerate(_UNPACK[byteorder](data))
    for slot, (code, registers, offset, value) in slots:
        dst, src = pairs[registers]
        for op, free_dst, fixed_src, fixed_offset, fixed_imm, wide in rows[code]:
            if (
                dst is None
                or src is None
                or not (free_dst or dst is r0)
                or not (fixed_src is None or src == fixed_src)
                or not (fixed_offset is None or offset == fixed_offset)
                or not (fixed_imm is None or value == fixed_imm)
            ):
                continue
            imm = value if fixed_imm is None else 0
            if wide:
                second = data[8 * slot + 8 : 8 * slot + 16]
                if len(second) < 8 or second[:4] != b"\0\0\0\0":
                    continue
                next(slots)
                imm = value & _LOW | int.from_bytes(second[4:], byteorder) << 32
            append(Instruction(op, dst, src if fixed_src is None else r0, offset if fixed_offset is None else 0, imm))
            break
        else:
            if not raw:
                raise _no_instruction(slot, (code, registers, offset, value), byteorder)
            append(_raw(data[8 * slot : 8 * slot + 8], registers, byteorder))
    return tuple(out)


def _raw(slot: bytes, registers: int, byteorder: ByteOrder) -> Raw:
    if _SCRATCH not in (registers >> 4, registers & 15):
        return Raw(slot)
    from pyebpf.asm.scratch import ax_register_text

    return Raw(slot, note=ax_register_text(slot, byteorder))


def _no_instruction(slot: int, fields: tuple[int, int, int, int], byteorder: ByteOrder) -> AssemblyError:
    code, registers, offset, imm = fields
    high, low = registers >> 4, registers & 15
    dst, src = (low, high) if byteorder == "little" else (high, low)
    for op, _, fixed_src, fixed_offset, _, wide in _rows()[code]:
        if wide and dst <= Register.R10 and (src, offset) == (fixed_src, fixed_offset):
            return AssemblyError(f"slot {slot}: {op.name} lacks its second half")
    return AssemblyError(
        f"slot {slot}: no instruction has opcode {code:#04x}, dst {dst}, src {src}, offset {offset}, imm {imm}"
    )
