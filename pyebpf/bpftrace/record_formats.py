"""Formats of records: the text of hundreds of a script's events is made by one unpacking and one `%` of Python's."""

from __future__ import annotations

from struct import Struct, calcsize
from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.bpftrace.value_types import (
    Address,
    Array,
    Boolean,
    Buffer,
    Characters,
    Inet,
    MacAddress,
    Number,
    Record,
    String,
    Tuple,
    Unread,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyebpf.bpftrace.value_types import Names, ValueType

#: How many records are printed by one call, texts that are remembered, and how long values are that have such a text.
_PORTIONS, _REMEMBERED, _SHORT = (256, 16, 1), 1024, 512
#: Types whose values have the same text at any time. Others are numbers of what may have another name later.
_CONSTANT = (Number, Boolean, Address, String, Characters, MacAddress, Inet, Buffer, Unread)


class Column(NamedTuple):
    """A specifier of Python's, struct's code of the value in memory, and what makes it the value that is printed."""

    specifier: str
    code: str
    text: Callable[[Any], object] | None = None


class Placed(NamedTuple):
    """A column whose value stands `offset` bytes into a record; None for a text behind the record's layout."""

    offset: int | None
    column: Column


class _Memo(dict[bytes, str]):
    """Texts of bytes. Most events have one that came before."""

    def __init__(self, text: Callable[[bytes], str]) -> None:
        super().__init__()
        self._text = text

    def __missing__(self, raw: bytes) -> str:
        if len(self) == _REMEMBERED:
            self.clear()
        found = self._text(raw)
        if len(raw) <= _SHORT:
            self[raw] = found
        return found


def text_column(type_: String, further: Callable[[str], str], names: Names) -> Column:
    """A column of strings, as they are shown and what `further` makes of that."""

    def text(raw: bytes) -> str:
        held = raw.partition(b"\0")[0]
        whole = held.decode("utf-8", "surrogateescape")
        if type_.cut and len(held) == type_.size - 1:
            whole += names.trailer
        return further(names.shown(whole))

    return Column("%s", type_.storage.format, _Memo(text).__getitem__)


def value_column(type_: ValueType, text: Callable[[Any], str]) -> Column:
    """A column of values whose text is made of each."""
    decode = type_.storage.decode

    def decoded(raw: bytes) -> str:
        return text(decode(raw))

    return Column("%s", f"{type_.storage.size}s", _Memo(decoded).__getitem__ if _is_constant(type_) else decoded)


def _is_constant(type_: ValueType) -> bool:
    if isinstance(type_, Tuple | Record):
        return all(map(_is_constant, type_.parts))
    return _is_constant(type_.element) if isinstance(type_, Array) else isinstance(type_, _CONSTANT)


def columns_of(
    type_: ValueType,
    offset: int | None,
    around: Callable[[Tuple | Record], list[str]],
    column: Callable[[ValueType], Column],
) -> tuple[list[str], list[Placed]]:
    """The columns of a value, one for each of its innermost parts, and the text before, between and behind them.

    `around` is such text of a tuple or record, `column` that of a part.
    """
    if not isinstance(type_, Tuple | Record) or offset is None:
        return ["", ""], [Placed(offset, column(type_))]
    first, *others = around(type_)
    pieces, columns = [first], []
    for part, field, behind in zip(type_.parts, type_.storage.fields, others, strict=True):
        inner, more = columns_of(part, offset + field.offset, around, column)
        pieces[-1] += inner[0]
        pieces += inner[1:]
        pieces[-1] += behind
        columns += more
    return pieces, columns


class RecordFormat:
    """A format of records of `size` bytes, behind which texts may stand, each with its NUL.

    `pieces` are the texts before, between and behind the columns. `wrap` makes the text that is printed of a record's.
    """

    def __init__(
        self, pieces: Sequence[str], columns: Sequence[Placed], size: int, wrap: Callable[[str], str] | None = None
    ) -> None:
        self._template = pieces[0].replace("%", "%%")
        for (_, column), piece in zip(columns, pieces[1:], strict=True):
            self._template += column.specifier + piece.replace("%", "%%")
        self._texts = [(index, each.column.text) for index, each in enumerate(columns) if each.column.text is not None]
        self._behind = [index for index, each in enumerate(columns) if each.offset is None]
        self._width, self._size, self._wrap = len(columns), size, wrap
        self._before, packed, at = [], "", 0
        for index, (offset, column) in enumerate(columns):
            if offset is not None:
                packed += f"{offset - at}x{column.code}"
                at = offset + calcsize(f"<{column.code}")
                self._before.append(index)
        packed += f"{size - at}x"
        self._portions = [(each, Struct(f"<{packed * each}")) for each in _PORTIONS]

    def together(self, records: Sequence[bytes]) -> str:
        """The texts of records, one behind the other."""
        if self._wrap is not None:
            return "".join(self.each(records))
        template = self._template
        return "".join([template * count % tuple(values) for count, values in self._portioned(records)])

    def each(self, records: Sequence[bytes]) -> list[str]:
        """The texts of records."""
        found, template, width = [], self._template, self._width
        for count, values in self._portioned(records):
            rows = zip(*[iter(values)] * width, strict=True) if width else [()] * count
            found += [template % row for row in rows]
        return found if self._wrap is None else list(map(self._wrap, found))

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
