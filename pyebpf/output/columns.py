"""Columns declared once: the same declaration prints text, CSV and JSON.

Text is for people: headings and units are the book's. CSV and JSON are for programs: names in snake_case, base units
(nanoseconds, bytes), all digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from keyword import iskeyword
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.output.escape import escaped, fit, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: The field of the time, which CSV and JSON have first in every record.
TIME = "time"
_FIELD = re.compile("[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and where its value comes from.

    `name` is the heading, with its unit: `LAT(ms)`. `key` is the record's attribute, or a function of the record; the
    default is the heading in lower case. `width` is the width in characters, 0 for a last column of any length. Text
    longer than the width is cut unless `cut` is False; a number never is. Numbers are divided by `scale` (bytes to
    `TX_KB`: 1024; nanoseconds to milliseconds: 1_000_000) and shown with `decimals` places, where 0 places mean whole
    units, cut as the book's tools cut them. None shows as `-`. A column `below`, such as a stack, has no place in the
    line: each of its items is a line of its own, indented, after it.

    In JSON and CSV the column is called `field`, with its base unit at the end: `latency_ns`, `sent_bytes`; the default
    is `key`, an attribute's name. Its value is not scaled: the attribute `key`, or what `value` says in its place, an
    attribute or a function. `type` is the value's as annotations write it, "int | None"; the default is the type of the
    attribute of the tool's `record`, "str" for a function. A column whose field is None is of text alone, one that is
    not `printed` of JSON and CSV alone; of a tool `printed` may name the field of the options that prints it. None is
    null in JSON, nothing in CSV; a sequence is a list in JSON, one cell with semicolons in CSV.

    The column whose value, in nanoseconds, pictures of the events show is `drawn`. One with `classes` tells the events
    apart in them, by its value in JSON: those named here have the first colours and marks.

    Raises InvalidValue for a field whose name is not in snake_case, and for an alignment or a scale that there is not.
    """

    name: str
    width: int = 0
    align: Literal["<", ">"] = "<"
    key: str | Callable[[Any], object] = ""
    scale: int = 1
    decimals: int | None = None
    cut: bool = True
    below: bool = False
    field: str | None = ""
    printed: bool | str = True
    value: str | Callable[[Any], object] = ""
    type: str = ""
    drawn: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.field is not None and not _FIELD.fullmatch(self.field_name()):
            raise InvalidValue(
                f"column {self.name}: name its value in JSON and CSV in snake_case, with its base unit: "
                f'Column({self.name!r}, …, field="latency_ns")'
            )

        if self.scale == 0 or self.width < 0:
            raise InvalidValue(f"column {self.name}: scale={self.scale}, width={self.width}: give a scale of 1 or more")
        if self.align not in ("<", ">"):
            raise InvalidValue(f"column {self.name}: align={self.align!r}: give '<' or '>'")

    def with_options(self, options: object) -> Column:
        """The column as these options of a tool have it."""
        if isinstance(self.printed, bool):
            return self
        return replace(self, printed=bool(getattr(options, self.printed)))

    def field_name(self) -> str:
        """The name in JSON and CSV; empty if it is not there."""
        if self.field is None:
            return ""
        return self.field or (self.key if isinstance(self.key, str) and self.key else self.name.lower())

    def raw(self) -> Callable[[Any], object]:
        """The function that takes the value for JSON and CSV from a record."""
        source = self.value or self.key or self.name.lower()
        return attrgetter(source) if isinstance(source, str) else source

    def getter(self) -> Callable[[Any], object]:
        """The function that takes the column's value from a record."""
        key = self.key or self.name.lower()
        return attrgetter(key) if isinstance(key, str) else key

    def scaled(self, value: object) -> object:
        """The value in the column's unit; only numbers change."""
        if self.scale == 1 or not isinstance(value, int | float):
            return value
        return value / self.scale

    def text(self, value: object) -> str:
        """The value as text, padded to the column's width; control characters are escaped."""
        if isinstance(value, str | bytes):
            return self._fit(escaped(value), cut=self.cut)
        if isinstance(value, int | float):
            number = self.scaled(value)
            if self.decimals is None:
                return self._fit(str(number), cut=False)
            whole = self.decimals == 0 and isinstance(value, int)
            return self._fit(str(int(value / self.scale)) if whole else f"{number:.{self.decimals}f}", cut=False)
        return self._fit("-" if value is None else escaped(str(value)), cut=self.cut)

    def _fit(self, text: str, *, cut: bool) -> str:
        if not self.width:
            return text
        return fit(text, self.width, right=self.align == ">", cut=cut)


def plain(value: object) -> object:
    """A value as JSON has it: numbers, text, lists and objects; anything else as its text."""
    if isinstance(value, str | bytes):
        return json_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return {json_text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return json_text(str(value))


def _items(value: object) -> Sequence[object]:
    """Return what stands below a line: the items of a tuple or list, one of anything else, none of None."""
    if value is None:
        return ()
    return value if isinstance(value, tuple | list) else (value,)


def _check_attributes(
    cells: Iterable[tuple[Column, Callable[[Any], object]]], record: object, error: AttributeError
) -> None:
    """Raise InvalidValue if a column names an attribute that such records do not have."""
    for column, get in cells:
        source = column.value or column.key
        if isinstance(source, str):
            try:
                get(record)
            except AttributeError:
                raise InvalidValue(
                    f"column {column.name}: a record ({type(record).__name__}) has no attribute "
                    f"{source or column.name.lower()!r}: Column({column.name!r}, key=...) says which to print, or "
                    "has a function of the record"
                ) from error


class Row:
    """Columns bound to the functions that read them from a record. Raises InvalidValue for two fields of one name."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(column for column in columns if column.printed)
        self._cells = [(column, column.getter()) for column in self.columns]
        self._fields: dict[str, tuple[Column, Callable[[Any], object]]] = {}
        for column in columns:
            name = column.field_name()
            if name in self._fields:
                raise InvalidValue(f"two columns are the field {name} in JSON and CSV: give one another field=")
            if name not in {"", TIME}:
                self._fields[name] = (column, column.raw())
        self._line = _line_of([column for column in self.columns if not column.below])
        self._below = [get for column, get in self._cells if column.below]

    @property
    def fields(self) -> list[str]:
        """The names in CSV and JSON, in order, without the time."""
        return list(self._fields)

    def header(self) -> str:
        """The heading line."""
        cells = (fit(c.name, c.width, right=c.align == ">") for c in self.columns if not c.below)
        return " ".join(cells).rstrip()

    def line(self, record: object) -> str:
        """The record as a line of text, without its end."""
        try:
            line = self._line(record)
            if not self._below:
                return line
            items = [f"\t{escaped(str(item))}" for get in self._below for item in _items(get(record))]
        except AttributeError as error:
            _check_attributes(self._cells, record, error)
            raise
        return "\n".join([line, *items])

    def values(self, record: object) -> list[object]:
        """The record's values in base units."""
        try:
            return [get(record) for _, get in self._fields.values()]
        except AttributeError as error:
            _check_attributes(self._fields.values(), record, error)
            raise

    def object(self, record: object) -> dict[str, object]:
        """The record as a JSON object: names of fields and plain values in base units."""
        try:
            return {name: plain(get(record)) for name, (_, get) in self._fields.items()}
        except AttributeError as error:
            _check_attributes(self._fields.values(), record, error)
            raise


def _line_of(columns: Sequence[Column]) -> Callable[[Any], str]:
    """A function from a record to the cells of `columns`, none of them `below`, with a space between.

    It is written for the columns, so that formatting decides nothing twice. Plain numbers and printable ASCII
    text are formatted in place, all else by `Column.text`, with the same result. Only names of attributes that Python
    could have read as such reach the source.
    """
    scope: dict[str, Any] = {}
    values, cells = [], []
    for index, column in enumerate(columns):
        key = column.key or column.name.lower()
        value = f"v{index}"
        if isinstance(key, str) and all(part.isidentifier() and not iskeyword(part) for part in key.split(".")):
            values.append(f" {value} = record.{key}")
        else:
            scope[f"get{index}"] = column.getter()
            values.append(f" {value} = get{index}(record)")
        scope[f"text{index}"] = column.text
        number, text, other = _number(column, value), _padded(column, value), f"text{index}({value})"
        cells.append(f"({number} if type({value}) is int else {text} if {_is_plain(column, value)} else {other})")
    text = "".join(f"{cell}, " for cell in cells)  # none, of a table that somebody declared so
    source = ["def line(record):", *values, f" return ' '.join(({text})).rstrip()"]
    exec("\n".join(source), scope)  # noqa: S102 - as the decoder of records does; see the docstring for what gets in
    line: Callable[[Any], str] = scope["line"]
    return line


def _number(column: Column, value: str) -> str:
    """An expression for the text of an int, as `Column.text` makes it."""
    align = f"{column.align}{column.width}" if column.width else ""
    quotient = value if column.scale == 1 else f"{value} / {column.scale}"
    if column.decimals is None:
        return f'f"{{{quotient}!s:{align}}}"'
    if column.decimals == 0:
        return f'f"{{int({value} / {column.scale}):{align}}}"'
    return f'f"{{{quotient}:{align}.{column.decimals}f}}"'


def _padded(column: Column, value: str) -> str:
    return f'f"{{{value}:{column.align}{column.width}}}"' if column.width else value


def _is_plain(column: Column, value: str) -> str:
    """A test for text that is shown as it is, and has room."""
    room = f" and len({value}) <= {column.width}" if column.width and column.cut else ""
    return f"type({value}) is str and {value}.isascii() and {value}.isprintable() and '\\\\' not in {value}{room}"
