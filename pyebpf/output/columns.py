"""Columns declared once: the same declaration prints text, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.output.escape import fit, json_text, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Column", "Row", "plain"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and where its value comes from.

    `name` is the heading with its unit, `LAT(ms)`, and the key in JSON. `key` is the record's attribute, or a function
    of the record; the default is the heading in lower case. `width` is the width in characters, 0 for a last column
    of any length. Text longer than the width is cut unless `cut` is False; a number never is. Numbers are divided by
    `scale` (bytes to `TX_KB`: 1024; nanoseconds to milliseconds: 1_000_000) and shown with `decimals` places in text,
    where 0 places mean whole units, cut as the book's tools cut them; JSON and CSV have the quotient unrounded. None
    shows as `-`, null in JSON, nothing in CSV. A column `below`, such as a stack, has no place in the line: each of its
    items is a line of its own, indented, after it; a list in JSON, one cell with semicolons in CSV.
    """

    name: str
    width: int = 0
    align: Literal["<", ">"] = "<"
    key: str | Callable[[Any], object] = ""
    scale: int = 1
    decimals: int | None = None
    cut: bool = True
    below: bool = False

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
            return self._fit(visible(value), cut=self.cut)
        if isinstance(value, int | float):
            number = self.scaled(value)
            if self.decimals is None:
                return self._fit(str(number), cut=False)
            whole = self.decimals == 0 and isinstance(value, int)
            return self._fit(str(int(value / self.scale)) if whole else f"{number:.{self.decimals}f}", cut=False)
        return self._fit("-" if value is None else visible(str(value)), cut=self.cut)

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
    cells: Sequence[tuple[Column, Callable[[Any], object]]], record: object, error: AttributeError
) -> None:
    """Raise InvalidValue if a column names an attribute that such records do not have."""
    for column, get in cells:
        if isinstance(column.key, str):
            try:
                get(record)
            except AttributeError:
                raise InvalidValue(
                    f"column {column.name}: a record ({type(record).__name__}) has no attribute "
                    f"{column.key or column.name.lower()!r}: Column({column.name!r}, key=...) says which to print, or "
                    "has a function of the record"
                ) from error


class Row:
    """Columns bound to the functions that read them from a record."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self._cells = [(column, column.getter()) for column in self.columns]
        self._line = [(column, get) for column, get in self._cells if not column.below]
        self._below = [get for column, get in self._cells if column.below]

    @property
    def names(self) -> list[str]:
        """The headings, in order."""
        return [column.name for column in self.columns]

    def header(self) -> str:
        """The heading line."""
        cells = (fit(c.name, c.width, right=c.align == ">") for c in self.columns if not c.below)
        return " ".join(cells).rstrip()

    def line(self, record: object) -> str:
        """The record as a line of text, without its end."""
        try:
            line = " ".join([column.text(get(record)) for column, get in self._line]).rstrip()
            if not self._below:
                return line
            items = [f"\t{visible(str(item))}" for get in self._below for item in _items(get(record))]
        except AttributeError as error:
            _check_attributes(self._cells, record, error)
            raise
        return "\n".join([line, *items])

    def values(self, record: object) -> list[object]:
        """The record's values in their columns' units."""
        try:
            return [
                ";".join(str(item) for item in _items(get(record))) if column.below else column.scaled(get(record))
                for column, get in self._cells
            ]
        except AttributeError as error:
            _check_attributes(self._cells, record, error)
            raise

    def object(self, record: object) -> dict[str, object]:
        """The record as a JSON object: column names and plain values."""
        try:
            return {column.name: plain(column.scaled(get(record))) for column, get in self._cells}
        except AttributeError as error:
            _check_attributes(self._cells, record, error)
            raise
