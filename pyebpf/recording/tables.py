"""Columns as data: those of a tool with the values that a record of a recording has for them, and back.

A recorded record is a tuple of values; several columns may show the same one. A column has its declaration, the number
of the value that text shows, and that of the value that CSV and JSON have.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from pyebpf.output.columns import TIME, Column
from pyebpf.output.schema import record_schema
from pyebpf.recording.value_types import ValueTypes
from pyebpf.recording.values import PLAIN, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MAX_COLUMNS, _MAX_WIDTH, _MAX_DECIMALS, _MAX_SCALE, _MAX_NAME, _MAX_CLASSES = 256, 1000, 20, 1 << 63, 256, 16
#: Endings of fields' names that are units.
_UNITS = ("ns", "us", "ms", "s", "bytes", "packets", "pages", "percent", "hz")


class Extraction:
    """The values of a tool's record that its columns show, and the declaration of those columns as data."""

    def __init__(
        self,
        columns: Sequence[Column],
        record: type | None,
        sentence: Callable[[Any], str] | None = None,
        *,
        is_timed: bool = False,
    ) -> None:
        self._sources: list[str | Callable[[Any], object]] = []
        types = record_schema(columns, record)["properties"]
        described = []
        for column in columns:
            name = column.field_name()
            text = value = None
            if not (is_timed and name == TIME):  # text shows the clock there
                text = self._slot(column.key or column.name.lower()) if column.printed else None
                value = self._slot(column.value or column.key or column.name.lower()) if name else None
            described.append(_described(column, text, value, types.get(name, {}).get("type")))
        self.table: dict[str, object] = {
            "columns": described,
            "sentence": None if sentence is None else self._slot(sentence),
            "values": 0,
        }
        self.table["values"] = len(self._sources)
        self._types = ValueTypes(len(self._sources), map(_typed, described))
        names = [source for source in self._sources if isinstance(source, str)]
        self._get: Callable[[Any], Sequence[object]]
        if len(names) == len(self._sources) > 1:
            self._get = attrgetter(*names)
        else:
            getters = [attrgetter(each) if isinstance(each, str) else each for each in self._sources]
            self._get = lambda record: [get(record) for get in getters]

    def _slot(self, source: str | Callable[[Any], object]) -> int:
        if source not in self._sources:
            self._sources.append(source)
        return self._sources.index(source)

    def values(self, record: object) -> list[object]:
        """The record's values, for JSON. Raises `Mismatch` for one that its column does not declare."""
        values = self._get(record)
        self._types.check(values)
        return [value if type(value) in PLAIN else encoded(value) for value in values]


def _typed(described: dict[str, Any]) -> tuple[int | None, str, object, bool]:
    """The facts of a column that `ValueTypes` takes."""
    return described["value"], described["field"], described["type"], described["drawn"]


def _described(column: Column, text: int | None, value: int | None, kind: object) -> dict[str, object]:
    name = column.field_name()
    unit = name.rpartition("_")[2]
    return {
        "name": column.name,
        "field": name,
        "type": kind,
        "unit": unit if unit in _UNITS else None,
        "text": text,
        "value": value,
        "width": column.width,
        "align": column.align,
        "scale": column.scale,
        "decimals": column.decimals,
        "cut": column.cut,
        "below": column.below,
        "drawn": column.drawn,
        "classes": list(column.classes),
    }


class Table:
    """Columns of a recording, for the same output that the tool has, and the names of its values.

    Raises ValueError for what is no declaration of columns: nothing of it is trusted.
    """

    def __init__(self, data: object) -> None:
        table = _mapping(data)
        self.values = _number(table["values"], 0, 2 * _MAX_COLUMNS + 1)
        described = table["columns"]
        if not isinstance(described, list) or len(described) > _MAX_COLUMNS:
            raise ValueError("columns")
        #: Number of a value by its name in JSON and CSV, in the order of the columns.
        self.fields: dict[str, int] = {}
        #: JSON's name of a field's type, and its unit, None where it is not known.
        self.types: dict[str, object] = {}
        self.units: dict[str, object] = {}
        self.columns = tuple(self._column(_mapping(each)) for each in described)
        #: The check of a record's values against the columns.
        self.value_types = ValueTypes(
            self.values,
            (
                (slot, name, self.types[name], column.drawn)
                for column in self.columns
                if (slot := self.fields.get(name := column.field_name())) is not None
            ),
        )
        sentence = self._slot(table.get("sentence"))
        self.sentence: Callable[[Any], str] | None = None
        if sentence is not None:
            self.sentence = lambda record: str(record[sentence])

    def _slot(self, data: object) -> int | None:
        return None if data is None else _number(data, 0, self.values - 1)

    def _column(self, data: dict[str, Any]) -> Column:
        text, value, field = self._slot(data["text"]), self._slot(data["value"]), _name(data["field"])
        if field and value is not None:
            self.fields[field] = value
            self.types[field], self.units[field] = data.get("type"), data.get("unit")
        decimals = data["decimals"]
        return Column(
            _name(data["name"]),
            _number(data["width"], 0, _MAX_WIDTH),
            "<" if data["align"] == "<" else ">",
            key=_getter(text),
            scale=_number(data["scale"], 1, _MAX_SCALE),
            decimals=None if decimals is None else _number(decimals, 0, _MAX_DECIMALS),
            cut=bool(data["cut"]),
            below=bool(data["below"]),
            field=field or None,
            # The clock of text stands where the tool's column of times was.
            printed=text is not None or field == TIME,
            value=_getter(value),
            drawn=data.get("drawn") is True and value is not None,
            classes=tuple(map(_name, _classes(data.get("classes")))) if value is not None else (),
        )


def _getter(slot: int | None) -> Callable[[Any], object]:
    return (lambda _: None) if slot is None else itemgetter(slot)


def _classes(data: object) -> list[object]:
    if data is None:
        return []
    if not isinstance(data, list) or len(data) > _MAX_CLASSES:
        raise ValueError("classes")
    return data


def _mapping(data: object) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError("no object")  # noqa: TRY004 - whatever is wrong with a file is one kind of error
    return data


def _number(data: object, low: int, high: int) -> int:
    """Return an integer within bounds; columns become source code, where nothing but a plain number may go."""
    if type(data) is not int or not low <= data <= high:
        raise ValueError("a number out of its bounds")
    return data


def _name(data: object) -> str:
    if not isinstance(data, str) or len(data) > _MAX_NAME or not data.isprintable():
        raise ValueError("no name")
    return data
