"""Operands of an instruction, read from the tokens of a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from pyebpf.asm.instruction import Instruction
from pyebpf.asm.op import REGISTERS, Form, Register
from pyebpf.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.asm.shapes import Shape
    from pyebpf.errors import Location

_LOW = 0xFFFF_FFFF
_MAX_DIGITS = 100
_CONSTANTS = (Form.DST_IMM, Form.STORE_IMM, Form.JUMP_IMM)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|(.))")
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_TAGS = ("fd", "idx", "id", "btf")
_BY_NAME = {f"{percent}{letter}{r:d}": r for percent in ("", "%") for letter in "rwRW" for r in REGISTERS}


def integer(text: str) -> int:
    """A number as both syntaxes write it, perhaps with a sign and space after it."""
    if len(text) > _MAX_DIGITS:
        raise AssemblyError(f"a number of {len(text)} digits fits no operand")
    try:
        return int(text, 0)
    except ValueError:  # a space after the sign, or a zero before other digits
        digits = text.lstrip("+- \t")
        prefixed = digits[1:2] in ("x", "X", "b", "B")
        if digits[0] == "0" and not prefixed and digits.strip("0"):
            raise AssemblyError(
                f"{digits} is octal to LLVM's assembler and decimal to others: write {digits.lstrip('0')}, or 0x…"
            ) from None
        number = int(digits, 0 if prefixed else 10)
        return -number if text[0] == "-" else number


def unquoted(text: str) -> str:
    """A name without its quotes, or without the number that the kernel puts behind a function's."""
    if text[0] != '"':
        return text.partition("#")[0]

    def character(found: re.Match[str]) -> str:
        if found[1]:
            number = int(found[1], 16)
            if number > 0x10FFFF:
                raise AssemblyError(f"{found[0]} is not a character")
            return chr(number)
        return _UNESCAPED.get(found[2], found[2])

    return _ESCAPE.sub(character, text[1:-1])


def _name_or_number(text: str, kind: str) -> tuple[str | None, int]:
    """Read what names a map, function or symbol: a name, or the number after `fd:`, `btf:` or alone."""
    if kind in ("#", "+#"):
        return None, integer(text)
    tag, _, number = text.partition(":")
    if number and tag in _TAGS:
        return None, integer(number)
    return unquoted(text), 0


class Operands:
    """The operands of one line, filled in token by token."""

    __slots__ = ("dst", "imm", "offset", "shape", "src", "symbol", "upper")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.dst: Register | None = None
        self.src: Register | None = None
        self.offset = self.imm = self.upper = 0
        self.symbol: str | None = None

    def read(self, field: str, text: str, kind: str) -> None:
        """Take one token. AssemblyError if it cannot be this operand."""
        _READERS[field](self, text, kind)

    def _dst(self, text: str, _: str) -> None:
        register = _BY_NAME[text]
        if self.dst is not None and self.dst is not register:
            raise self._two_registers(self.dst, text)
        self.dst = register

    def _src(self, text: str, _: str) -> None:
        register = _BY_NAME[text]
        if self.src is not None and self.src is not register:
            raise self._two_registers(self.src, text)
        self.src = register

    def _two_registers(self, one: Register, text: str) -> AssemblyError:
        name = self.shape.op.name
        return AssemblyError(f"{name} has one register in these places, but here are r{one:d} and {text}")

    def _zero(self, text: str, kind: str) -> None:
        if integer(text.lstrip("%rwRW")) != 0:
            raise AssemblyError(f"{text} must be {'0' if kind in ('#', '+#') else kind + '0'}")

    def _immediate(self, text: str, _: str) -> None:
        op, value = self.shape.op, integer(text)
        if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
            written_as_bits = text.lstrip("+ \t")[:2].lower() in ("0x", "0b")
            if 0 < value <= 0xFFFF_FFFF and (op.size <= 4 or (self.shape.mnemonic and written_as_bits)):
                value -= 1 << 32
            elif op.size == 8 and -1 << 31 <= value - (1 << 64) < 0:
                value -= 1 << 64  # all 64 bits of a negative number are written, and the operation makes them again
            elif op.form in _CONSTANTS:
                raise self._too_wide(text, value)
        self.imm = value

    def _too_wide(self, text: str, value: int) -> AssemblyError:
        """A constant of more than 32 bits, and what loads it."""
        op = self.shape.op
        if not -1 << 63 <= value < 1 << 64:
            return AssemblyError(f"{text} does not fit 64 bits")
        if op.size < 8:
            return AssemblyError(f"{text} does not fit 32 bits (-2147483648..4294967295)")
        into = self.dst if op.name == "mov64" and self.dst is not None else Register.R5
        wider = f"lddw %r{into:d}, {value:#x}" if self.shape.mnemonic else f"r{into:d} = {value:#x} ll"
        if op.name == "mov64":
            return AssemblyError(f"{text} does not fit 32 bits: load it with `{wider}`")
        return AssemblyError(f"{text} does not fit 32 bits: load it into a register, as by `{wider}`, and use that")

    def _wide(self, text: str, _: str) -> None:
        self.imm = integer(text)

    def _offset(self, text: str, _: str) -> None:
        self.offset = integer(text)

    def _upper(self, text: str, _: str) -> None:
        self.upper = _checked(text, 0xFFFF_FFFF)

    def _high(self, text: str, _: str) -> None:
        self.imm |= _checked(text, 0xFFFF) << 16
        self.imm -= self.imm >> 31 << 32

    def _low(self, text: str, _: str) -> None:
        self.imm |= _checked(text, 0xFFFF)

    def _named(self, text: str, kind: str) -> None:
        self.symbol, self.imm = _name_or_number(text, kind)

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
        op, imm = self.shape.op, self.imm
        if op.slots == 2 and op.form is not Form.LDDW:
            imm = _checked32(imm) | self.upper << 32
        return Instruction(op, self.dst or _R0, self.src or _R0, self.offset, imm, self.symbol, where)

    READERS: ClassVar[dict[str, Callable[[Operands, str, str], None]]] = {
        "d": _dst,
        "s": _src,
        "zero": _zero,
        "imm": _immediate,
        "index": _immediate,
        "wide": _wide,
        "off": _offset,
        "disp": _offset,
        "module": _offset,
        "place": _upper,
        "upper": _upper,
        "high": _high,
        "low": _low,
        "to": _target,
        "function": _target,
        "map": _named,
        "ksym": _named,
        "kfunc": _named,
        "symbol": _named,
    }


_READERS = Operands.READERS
_R0 = Register.R0


def _checked(text: str, most: int) -> int:
    value = integer(text)
    if not 0 <= value <= most:
        raise AssemblyError(f"{text} is outside 0..{most}")
    return value


def _checked32(value: int) -> int:
    if not -0x8000_0000 <= value <= _LOW:
        raise AssemblyError(f"{value} does not fit 32 bits")
    return value & _LOW
