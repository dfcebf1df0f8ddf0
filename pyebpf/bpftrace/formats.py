"""Formats of `printf`: parsed when a script is compiled, applied to the values of each event."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bpftrace.value_types import Address, Boolean, Buffer, Number
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace.value_types import Names, ValueType

_SPECIFIER = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?(?P<length>[hlLjzt]*)(?P<kind>rx|rh|r|[diouxXcspn%])"
)
#: Bits of an integer by C's length modifier: without one it is an int. All others are words.
_BITS = {"hh": 8, "h": 16, "": 32}
_WORD = 64


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
        return self._number(value)

    def _number(self, value: int) -> str:
        bits = _WORD if self.kind == "p" else _BITS.get(self.length, _WORD)
        number = value & ((1 << bits) - 1)
        if self.kind in "di":
            number -= (number >> (bits - 1)) << bits
            text = str(abs(number))
            sign = "-" if number < 0 else "+" if self.plus else ""
            return self._padded(text, sign)
        if self.kind == "c":
            return self._padded(chr(number & 0xFF))
        if self.kind == "p":
            return self._padded(f"{number:x}", "0x")
        before = {"x": "0x", "X": "0X", "o": "0"}.get(self.kind, "") if self.alternate and number else ""
        return self._padded(format(number, self.kind if self.kind in "xXo" else "d"), before)

    def _padded(self, text: str, sign: str = "") -> str:
        if self.zeros and not self.left and self.kind not in ("s", "c"):
            return sign + text.rjust(self.width - len(sign), "0")
        return f"{sign}{text}".ljust(self.width) if self.left else f"{sign}{text}".rjust(self.width)


@dataclass(frozen=True, slots=True)
class Format:
    """A format as pieces of text with specifiers between them."""

    pieces: tuple[str, ...]
    specifiers: tuple[Specifier, ...]

    def apply(self, values: Sequence[object], types: Sequence[ValueType], names: Names) -> str:
        """The text of an event."""
        parts = [self.pieces[0]]
        for specifier, value, type_, piece in zip(self.specifiers, values, types, self.pieces[1:], strict=True):
            parts += [specifier.apply(value, type_, names), piece]
        return "".join(parts)


def parse_format(text: str) -> Format:
    """Parse a format. Raises ValueError, with a message, for a specifier that there is not."""
    pieces, specifiers, last, piece = [], [], 0, ""
    for found in re.finditer("%", text):
        if found.start() < last:
            continue
        match = _SPECIFIER.match(text, found.start())
        if match is None:
            if not text[found.end() : found.end() + 1].isalnum():
                continue  # bpftrace prints a % that no specifier follows
            msg = f"no specifier of printf begins with {text[found.start() : found.start() + 4]!r}"
            raise ValueError(msg)
        piece += text[last : match.start()]
        last = match.end()
        if match["kind"] == "%":
            piece += "%"
            continue
        if match["kind"] == "n" or (match["precision"] is not None and match["kind"] != "s"):
            msg = f"{match[0]} is not supported: leave out the {'%n' if match['kind'] == 'n' else 'precision'}"
            raise ValueError(msg)
        flags = match["flags"]
        specifiers.append(
            Specifier(
                match["kind"],
                left="-" in flags,
                plus="+" in flags,
                alternate="#" in flags,
                zeros="0" in flags,
                width=int(match["width"] or 0),
                precision=None if match["precision"] is None else int(match["precision"]),
                length=match["length"],
            )
        )
        pieces.append(piece)
        piece = ""
    pieces.append(piece + text[last:])
    return Format(tuple(pieces), tuple(specifiers))
