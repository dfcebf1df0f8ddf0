"""Formats of `printf`: parsed when a script is compiled, applied to the values of each event."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bpftrace.record_formats import Column, text_column, value_column
from pyebpf.bpftrace.value_types import Address, Boolean, Buffer, Number, String, interleaved
from pyebpf.dataclass import dataclass
from pyebpf.errors import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace.value_types import Names, ValueType

_SPECIFIER = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d+)?(?:\.(?P<precision>\d*))?(?P<length>[hlLjzt]*)"
    r"(?P<kind>gr|rx|rh|r|[diouxXcspn%])"
)
#: A specifier of C's by its last letter.
_UNKNOWN = re.compile(r"%[-+ #0]*\d*(?:\.\d*)?(?:hh|h|ll|l|L|j|z|t)?([A-Za-z])")
#: A specifier whose width or precision C would take of the arguments.
_STAR = re.compile(r"%[-+ #0]*(?:\*(?:\.[\d*]*)?|\d*\.\*)[hlLjzt]*[diouxXcsp]")
#: Bits of an integer by C's length modifier: without one it is an int. All others are words.
_BITS = {"hh": 8, "h": 16, "": 32}
_WORD = 64
#: struct's codes of integers by their bits.
_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}
#: Characters that a value may be padded to.
_WIDEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Specifier:
    """One `%…` of a format."""

    kind: str
    left: bool = False
    plus: bool = False
    alternate: bool = False
    zeros: bool = False
    width: int = 0
    precision: int | None = None
    length: str = ""

    def accepts(self, type_: ValueType) -> bool:
        """Whether it prints values of a type."""
        if self.kind == "s":
            return True
        if self.kind in ("r", "rx", "rh"):
            return isinstance(type_, Buffer)
        return isinstance(type_, Number | Boolean | Address)

    def apply(self, value: object, type_: ValueType, names: Names) -> str:
        """A value as text."""
        if self.kind == "s":
            return self._padded(type_.text(value, names)[: self.precision])
        if self.kind in ("r", "rx", "rh"):
            return self._padded(Buffer.hexadecimal(value, ascii_kept=self.kind == "r", escaped=self.kind != "rh"))
        assert isinstance(value, int)
        if self.kind == "gr":
            return self._padded(names.gfp_flags(value & ((1 << _WORD) - 1)))
        return self._number(value)

    def column(self, type_: ValueType, names: Names) -> Column:
        """How `%` prints values of a type as they are in memory."""
        if self.kind == "s" and isinstance(type_, String):
            return text_column(type_, lambda text: self._padded(text[: self.precision]), names)
        if self.kind in "diuxXc" and not self.alternate and isinstance(type_, Number | Address):
            return self._number_column()
        return value_column(type_, lambda value: self.apply(value, type_, names))

    def _number_column(self) -> Column:
        width = self.width or ""
        if self.kind == "c":
            return Column(f"%{'-' * self.left}{width}s", _CODES[8], _CHARACTERS.__getitem__)
        code, plus = _CODES[_BITS.get(self.length, _WORD)], ""
        if self.kind in "di":
            code, plus = code.lower(), "+" * self.plus
        flag = "-" if self.left else "0" if self.zeros else ""
        kind = self.kind if self.kind in "xX" else "d"
        return Column(f"%{plus}{flag}{width}{kind}", code)

    def _number(self, value: int) -> str:
        bits = _WORD if self.kind == "p" else _BITS.get(self.length, _WORD)
        number = value & ((1 << bits) - 1)
        if self.kind in "di":
            number -= (number >> (bits - 1)) << bits
            text = str(abs(number))
            sign = "-" if number < 0 else "+" if self.plus else ""
            return self._padded(text, sign)
        if self.kind == "c":
            return self._padded(character(number & 0xFF))
        if self.kind == "p":
            return self._padded(f"{number:x}", "0x" if number else "")
        before = {"x": "0x", "X": "0X", "o": "0"}.get(self.kind, "") if self.alternate and number else ""
        return self._padded(format(number, self.kind if self.kind in "xXo" else "d"), before)

    def _padded(self, text: str, sign: str = "") -> str:
        if self.zeros and not self.left and self.kind not in ("s", "c"):
            return sign + text.rjust(self.width - len(sign), "0")
        if self.kind == "s":
            return padded(text, -self.width if self.left else self.width)
        return f"{sign}{text}".ljust(self.width) if self.left else f"{sign}{text}".rjust(self.width)


def character(byte: int) -> str:
    """A byte as text that is written as this byte."""
    return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)  # as surrogateescape has it


def padded(text: str, width: int) -> str:
    """A text with spaces before it, or behind it if the width is negative, up to so many bytes, which C counts."""
    if not text.isascii():
        further = len(text.encode("utf-8", "surrogateescape")) - len(text)
        width = min(width + further, 0) if width < 0 else max(width - further, 0)
    return text.ljust(-width) if width < 0 else text.rjust(width)


#: The texts of all bytes.
_CHARACTERS = [character(byte) for byte in range(256)]


@dataclass(frozen=True, slots=True)
class Format:
    """A format as pieces of text with specifiers between them."""

    pieces: tuple[str, ...]
    specifiers: tuple[Specifier, ...]

    def mismatch(self, given: int) -> str:
        """The message for another number of values than it prints."""
        are = "is" if given == 1 else "are"
        return f"the format takes {amount(len(self.specifiers), 'value')}, and {given} {are} given"

    def columns(self, types: Sequence[ValueType], names: Names) -> list[Column]:
        """How `%` prints values of these types as they are in memory."""
        return [each.column(type_, names) for each, type_ in zip(self.specifiers, types, strict=True)]

    def apply(self, values: Sequence[object], types: Sequence[ValueType], names: Names) -> str:
        """The text of an event."""
        of_each = zip(self.specifiers, values, types, strict=True)
        return interleaved(self.pieces, [specifier.apply(value, type_, names) for specifier, value, type_ in of_each])


def parse_format(text: str) -> Format:
    """Parse a format. Raises ValueError, with a message, for a specifier that there is not."""
    pieces, specifiers, last, piece = [], [], 0, ""
    for found in re.finditer("%", text):
        if found.start() < last:
            continue
        match = _SPECIFIER.match(text, found.start())
        if match is None:
            if _STAR.match(text, found.start()):
                msg = "a width or precision is written as a number, %10d or %.5s: not as * with an argument"
                raise ValueError(msg)
            if text[found.end() : found.end() + 1] == "'":
                msg = "%' is not supported: no separators are put between thousands, leave the ' out"
                raise ValueError(msg)
            if not text[found.end() : found.end() + 1].isalnum():
                continue  # bpftrace prints a % that no specifier follows
            unknown = _UNKNOWN.match(text, found.start())
            msg = f"no specifier of printf begins with {text[found.start() : found.start() + 2]!r}"
            if unknown is not None and unknown[1] in "aAeEfFgG":
                msg = f"{unknown[0]} is for floating-point numbers, which are not printed: %d, %x and %s are"
            elif unknown is not None:
                msg = f"no specifier of printf begins with {unknown[0]!r}"
            raise ValueError(msg)
        piece += text[last : match.start()]
        last = match.end()
        if match["kind"] == "%":
            piece += "%"
            continue
        if match["kind"] == "n":
            msg = f"{match[0]} is not supported: leave it out"
            raise ValueError(msg)
        if int(match["width"] or 0) > _WIDEST:
            msg = f"{match[0]} is wider than {_WIDEST} characters"
            raise ValueError(msg)
        flags, precision = match["flags"], match["precision"]
        specifiers.append(
            Specifier(
                match["kind"],
                left="-" in flags,
                plus="+" in flags,
                alternate="#" in flags,
                zeros="0" in flags,
                width=int(match["width"] or 0),
                # bpftrace takes a number's precision and does nothing with it. A point alone is .0, as in C.
                precision=int(precision or 0) if precision is not None and match["kind"] == "s" else None,
                length=match["length"],
            )
        )
        pieces.append(piece)
        piece = ""
    pieces.append(piece + text[last:])
    return Format(tuple(pieces), tuple(specifiers))
