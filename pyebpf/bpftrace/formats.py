"""Formats of `printf`: parsed when a script is compiled, applied to the values of each event."""

from __future__ import annotations

import re
from struct import Struct, calcsize
from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.bpftrace.value_types import Address, Boolean, Buffer, Number, String
from pyebpf.dataclass import dataclass
from pyebpf.errors import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyebpf.bpftrace.value_types import Names, ValueType
    from pyebpf.types import TupleType

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
#: How many records are printed by one call, and texts that are remembered.
_PORTIONS, _REMEMBERED = (256, 16, 1), 1024
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

    def column(self, type_: ValueType, shown: Callable[[str], str] | None, trailer: str) -> Column | None:
        """How `%` prints values of a type; None if it does not. Texts are `shown`, with the trailer where cut."""
        if self.kind == "s" and isinstance(type_, String):

            def text(raw: bytes) -> str:
                held = raw.partition(b"\0")[0]
                whole = held.decode("utf-8", "surrogateescape")
                if type_.cut and len(held) >= type_.size - 1:
                    whole += trailer
                return self._padded((whole if shown is None else shown(whole))[: self.precision])

            return Column("%s", type_.storage.format, _Memo(text).__getitem__)
        if self.kind not in "diuxXc" or self.alternate or not isinstance(type_, Number | Address):
            return None
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


class Column(NamedTuple):
    """A specifier of Python's, struct's code of the value in memory, and what makes it the value that is printed."""

    specifier: str
    code: str
    text: Callable[[Any], str] | None = None


class _Memo(dict[bytes, str]):
    """Texts of bytes. Most events have one that came before."""

    def __init__(self, text: Callable[[bytes], str]) -> None:
        super().__init__()
        self._text = text

    def __missing__(self, raw: bytes) -> str:
        if len(self) == _REMEMBERED:
            self.clear()
        found = self[raw] = self._text(raw)
        return found


@dataclass(frozen=True, slots=True)
class Format:
    """A format as pieces of text with specifiers between them."""

    pieces: tuple[str, ...]
    specifiers: tuple[Specifier, ...]

    def mismatch(self, given: int) -> str:
        """The message for another number of values than it prints."""
        are = "is" if given == 1 else "are"
        return f"the format takes {amount(len(self.specifiers), 'value')}, and {given} {are} given"

    def apply(self, values: Sequence[object], types: Sequence[ValueType], names: Names) -> str:
        """The text of an event."""
        parts = [self.pieces[0]]
        for specifier, value, type_, piece in zip(self.specifiers, values, types, self.pieces[1:], strict=True):
            parts += [specifier.apply(value, type_, names), piece]
        return "".join(parts)


class RecordFormat:
    """A format of records, each the number of its action and values: hundreds are unpacked and printed by two calls.

    Texts that `behind` marks stand behind the layout, each with its NUL.
    """

    def __init__(
        self, pieces: Sequence[str], columns: Sequence[Column], layout: TupleType, behind: Sequence[bool]
    ) -> None:
        self._template = pieces[0].replace("%", "%%")
        for column, piece in zip(columns, pieces[1:], strict=True):
            self._template += column.specifier + piece.replace("%", "%%")
        self._texts = [(index, each.text) for index, each in enumerate(columns) if each.text is not None]
        self._behind = [index for index, each in enumerate(behind) if each]
        self._before = [index for index, each in enumerate(behind) if not each]
        self._width, self._size = len(columns), layout.size
        packed, at = "", 0
        for index, field in zip(self._before, layout.fields[1:], strict=True):
            code = columns[index].code
            packed += f"{field.offset - at}x{code}"
            at = field.offset + calcsize(f"<{code}")
        packed += f"{layout.size - at}x"
        self._portions = [(each, Struct(f"<{packed * each}")) for each in _PORTIONS]

    def together(self, records: Sequence[bytes]) -> str:
        """The texts of records, one behind the other."""
        template = self._template
        return "".join([template * count % tuple(values) for count, values in self._portioned(records)])

    def each(self, records: Sequence[bytes]) -> list[str]:
        """The texts of records."""
        found, template, width = [], self._template, self._width
        for count, values in self._portioned(records):
            rows = zip(*[iter(values)] * width, strict=True) if width else [()] * count
            found += [template % row for row in rows]
        return found

    def _portioned(self, records: Sequence[bytes]) -> Iterator[tuple[int, list[Any]]]:
        """The values of so many records, as they are printed, one's behind the other's, portion by portion."""
        first, left, width = 0, len(records), self._width
        for count, form in self._portions:
            while left >= count:
                part = records[first : first + count]
                first, left = first + count, left - count
                values = self._with_texts(part, form) if self._behind else list(form.unpack(b"".join(part)))
                for index, text in self._texts:
                    values[index::width] = map(text, values[index::width])
                yield count, values

    def _with_texts(self, records: Sequence[bytes], form: Struct) -> list[Any]:
        """The values of records with texts behind the layout."""
        width = self._width
        values: list[Any] = [None] * (width * len(records))
        before = form.unpack(b"".join([each[: self._size] for each in records]))
        for number, index in enumerate(self._before):
            values[index::width] = before[number :: len(self._before)]
        rests = [each[self._size :].split(b"\0") for each in records]
        for number, index in enumerate(self._behind):
            values[index::width] = [each[number] for each in rests]
        return values


def record_format(
    format_: Format,
    types: Sequence[ValueType],
    layout: TupleType,
    shown: Callable[[str], str] | None = None,
    trailer: str = "",
    behind: Sequence[bool] = (),
) -> RecordFormat | None:
    """A format of records whose values have these types; None for one that asks for more than Python's `%` prints.

    Strings are `shown`, or as they are, with the trailer where they were cut.
    """
    columns = []
    for specifier, type_ in zip(format_.specifiers, types, strict=True):
        column = specifier.column(type_, shown, trailer)
        if column is None:
            return None
        columns.append(column)
    return RecordFormat(format_.pieces, columns, layout, behind or [False] * len(columns))


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
