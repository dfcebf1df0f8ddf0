"""What a line's tokens say of an instruction's operands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.asm.instruction import Instruction
from pyebpf.asm.op import REGISTERS, Form, Register
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from pyebpf.asm.shapes import Shape
    from pyebpf.errors import Location

__all__ = ["Operands", "integer", "unquoted"]

_LOW = 0xFFFF_FFFF
_MOST_DIGITS = 100
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|(.))")
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_TAGS = ("fd", "idx", "id", "btf")
_BY_NAME = {f"{percent}{letter}{r:d}": r for percent in ("", "%") for letter in "rw" for r in REGISTERS}


def integer(text: str) -> int:
    """A number as both syntaxes write it, perhaps with a sign and space after it."""
    digits = text.lstrip("+- \t")
    if len(digits) > _MOST_DIGITS:
        raise AssemblyError(f"a number of {len(digits)} digits fits no operand")
    number = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    return -number if text[0] == "-" else number


def unquoted(text: str) -> str:
    """A name without its quotes, or without the number that the kernel puts behind a function's."""
    if text[0] != '"':
        return text.partition("#")[0]

    def character(found: re.Match[str]) -> str:
        if found[1]:
            number = int(found[1], 16)
            if number > 0x10FFFF:
                raise AssemblyError(f"{found[0]} is no character")
            return chr(number)
        return _UNESCAPED.get(found[2], found[2])

    return _ESCAPE.sub(character, text[1:-1])


def _name_or_number(text: str, kind: str) -> tuple[str | None, int]:
    """What a map, function or symbol is named by: a name, or the number after `fd:`, `btf:` or alone."""
    if kind in ("#", "+#"):
        return None, integer(text)
    tag, _, number = text.partition(":")
    if number and tag in _TAGS:
        return None, integer(number)
    return unquoted(text), 0


class Operands:
    """The operands of one line, filled in token by token."""

    __slots__ = ("imm", "offset", "registers", "shape", "symbol", "upper")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.registers: dict[str, Register] = {}
        self.offset = self.imm = self.upper = 0
        self.symbol: str | None = None

    def read(self, field: str, text: str, kind: str) -> None:
        """Take one token. AssemblyError if it cannot be this operand."""
        op = self.shape.op
        if field in ("d", "s"):
            register = _BY_NAME[text]
            if self.registers.setdefault(field, register) is not register:
                raise AssemblyError(
                    f"{op.name} has one register in these places, but here are r{self.registers[field]:d} and {text}"
                )
        elif field == "zero":
            if integer(text.lstrip("%rw")) != 0:
                raise AssemblyError(f"{text} must be {'0' if kind in ('#', '+#') else text[0] + '0'}")
        elif field in ("imm", "index"):
            self.imm = self._immediate(text)
        elif field == "wide":
            self.imm = integer(text)
        elif field in ("off", "disp", "module"):
            self.offset = integer(text)
        elif field in ("place", "upper"):
            self.upper = _checked(text, 0xFFFF_FFFF)
        elif field == "high":
            self.imm |= _checked(text, 0xFFFF) << 16
            self.imm -= self.imm >> 31 << 32
        elif field == "low":
            self.imm |= _checked(text, 0xFFFF)
        elif field in ("to", "function"):
            self._target(text, kind)
        else:  # map, ksym, kfunc, symbol
            self.symbol, self.imm = _name_or_number(text, kind)

    def _immediate(self, text: str) -> int:
        op, value = self.shape.op, integer(text)
        if 0x8000_0000 <= value <= 0xFFFF_FFFF:
            written_as_bits = text.lstrip("+ \t")[:2] in ("0x", "0X")
            if op.size <= 4 or (self.shape.mnemonic and written_as_bits):
                return value - (1 << 32)
        if not -0x8000_0000 <= value <= 0x7FFF_FFFF and op.name == "mov64":
            wider = f"{'lddw %r' if self.shape.mnemonic else 'r'}{self.registers['d']:d}"
            wider += f", {value:#x}" if self.shape.mnemonic else f" = {value:#x} ll"
            raise AssemblyError(f"{text} does not fit 32 bits: load it with `{wider}`")
        return value

    def _target(self, text: str, kind: str) -> None:
        if kind == "@" or kind[0].isalpha():
            self.symbol = unquoted(text)
            return
        distance = integer(text.removeprefix("pc").partition("#")[0].strip())
        form = self.shape.op.form
        if form in (Form.JUMP_LONG, Form.CALL_LOCAL):
            self.imm = distance
        elif form is Form.LDDW_FUNCTION:
            self.imm = _checked32(distance)
        else:
            self.offset = distance

    def made(self, where: Location) -> Instruction:
        """The instruction. AssemblyError if an operand is out of range."""
        op = self.shape.op
        imm = self.imm
        if op.slots == 2 and op.form is not Form.LDDW:
            imm = _checked32(imm) | self.upper << 32
        register = self.registers.get
        return Instruction(
            op, register("d", Register.R0), register("s", Register.R0), self.offset, imm, self.symbol, where
        )


def _checked(text: str, most: int) -> int:
    value = integer(text)
    if not 0 <= value <= most:
        raise AssemblyError(f"{text} is outside 0..{most}")
    return value


def _checked32(value: int) -> int:
    if not -0x8000_0000 <= value <= _LOW:
        raise AssemblyError(f"{value} does not fit 32 bits")
    return value & _LOW
