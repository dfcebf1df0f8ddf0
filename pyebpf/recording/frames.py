"""Rows as columns of one type each, for pandas, polars and Parquet."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from pyebpf.output.columns import TIME, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Rows = Callable[[], Iterable[Mapping[str, Any]]]

Type = Literal["time", "bool", "int", "uint", "float", "text", "texts", "ints"]
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
#: Rows of a row group of a Parquet file.
BATCH = 65_536
#: Nanoseconds since 1970: the type of times in frames.
_DATES = "datetime64[ns]"


class Types:
    """The types of the columns of rows that were looked at, and how many rows there were."""

    def __init__(self, fields: Iterable[str]) -> None:
        self.count = 0
        self._kinds: dict[str, set[str]] = {field: set() for field in fields}
        self._bounds: dict[str, tuple[int, int]] = {}
        self._present: dict[str, int] = dict.fromkeys(self._kinds, 0)

    def add(self, row: Mapping[str, Any]) -> None:
        """Look at a row."""
        self.count += 1
        for name, value in row.items():
            kinds = self._kinds.setdefault(name, set())
            if value is None:
                continue
            self._present[name] = self._present.get(name, 0) + 1
            kind = _kind(value)
            kinds.add(kind)
            if kind in {"int", "ints"}:
                numbers = [value] if kind == "int" else value
                low, high = self._bounds.get(name, (0, 0))
                self._bounds[name] = min(low, *numbers), max(high, *numbers)

    def found(self) -> dict[str, Type]:
        """The type of each column: that of text, if it has values of several."""
        return {name: "time" if name == TIME else self._type(name, kinds) for name, kinds in self._kinds.items()}

    def has_nulls(self, name: str) -> bool:
        """Whether some row has no value there."""
        return self._present.get(name, 0) < self.count

    def _type(self, name: str, kinds: set[str]) -> Type:
        low, high = self._bounds.get(name, (0, 0))
        fits = low >= _LEAST and high <= (_MOST if low >= 0 else -_LEAST - 1)
        match sorted(kinds):
            case ["bool"]:
                return "bool"
            case ["int"] if fits:
                return "uint" if high > -_LEAST - 1 else "int"
            case ["float"] | ["float", "int"]:
                return "float"
            case ["ints"] if fits and high < -_LEAST:
                return "ints"
            case ["texts"]:
                return "texts"
            case _:
                return "text"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, list | tuple) and value:
        kinds = {_kind(item) for item in value}
        return {"text": "texts", "int": "ints"}.get(kinds.pop(), "any") if len(kinds) == 1 else "any"
    if isinstance(value, list | tuple):
        return "texts"
    return "text" if isinstance(value, str | bytes) else "any"


def _converted(value: Any, kind: Type) -> Any:
    """A value as one of a type, which it has or is written as; bytes that are no text become escapes."""
    if value is None or kind in {"time", "bool", "int", "uint", "ints"}:
        return value
    if kind == "float":
        return float(value)
    found = plain(value)
    if kind == "texts" or isinstance(found, str):
        return found
    return json.dumps(found)


def columns(rows: Iterable[Mapping[str, Any]], types: Mapping[str, Type]) -> dict[str, list[Any]]:
    """The values of each column."""
    found: dict[str, list[Any]] = {name: [] for name in types}
    for row in rows:
        for name, kind in types.items():
            found[name].append(_converted(row.get(name), kind))
    return found


def types_of(rows: Rows, fields: Iterable[str]) -> Types:
    """The types of all rows; `fields` come first, also where there are none."""
    types = Types(fields)
    for row in rows():
        types.add(row)
    return types


def pandas_frame(rows: Rows, fields: Iterable[str]) -> Any:
    """A pandas.DataFrame. Raises ImportError without pandas."""
    pandas: Any = import_module("pandas")
    types = types_of(rows, fields)
    found = types.found()
    kept = columns(islice(rows(), types.count), found)
    # A number that may be missing is not to become a float, which has not room for all.
    whole = {"int": "Int64", "uint": "UInt64", "bool": "boolean"}
    dtypes: dict[str, object] = {"time": _DATES, "int": "int64", "uint": "uint64", "float": "float64", "bool": "bool"}
    return pandas.DataFrame(
        {
            name: pandas.Series(
                kept[name], dtype=whole[kind] if kind in whole and types.has_nulls(name) else dtypes.get(kind)
            )
            for name, kind in found.items()
        }
    )


def polars_frame(rows: Rows, fields: Iterable[str]) -> Any:
    """A polars.DataFrame. Raises ImportError without polars."""
    polars: Any = import_module("polars")
    types = types_of(rows, fields)
    found = types.found()
    kept = columns(islice(rows(), types.count), found)
    dtypes = {
        "time": polars.Datetime("ns"),
        "bool": polars.Boolean,
        "int": polars.Int64,
        "uint": polars.UInt64,
        "float": polars.Float64,
        "text": polars.String,
        "texts": polars.List(polars.String),
        "ints": polars.List(polars.Int64),
    }
    return polars.DataFrame([polars.Series(name, kept[name], dtype=dtypes[kind]) for name, kind in found.items()])


def write_parquet(rows: Rows, fields: Iterable[str], file: Any, metadata: Mapping[str, str]) -> int:
    """Write rows to a path or a binary file, and return how many; times are in UTC.

    Raises ImportError without pyarrow.
    """
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(f"Parquet files are written by pyarrow: pip install pyarrow ({error})") from None
    types = types_of(rows, fields)
    found = types.found()
    made = {
        "time": arrow.timestamp("ns", tz="UTC"),
        "bool": arrow.bool_(),
        "int": arrow.int64(),
        "uint": arrow.uint64(),
        "float": arrow.float64(),
        "text": arrow.string(),
        "texts": arrow.list_(arrow.string()),
        "ints": arrow.list_(arrow.int64()),
    }
    schema = arrow.schema([(name, made[kind]) for name, kind in found.items()], metadata=dict(metadata))
    with parquet.ParquetWriter(file, schema) as writer:
        for batch in _batches(islice(rows(), types.count)):
            kept = columns(batch, found)
            arrays = [arrow.array(kept[name], type=made[kind]) for name, kind in found.items()]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
    return types.count


def _batches(rows: Iterable[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    source = iter(rows)
    while batch := list(islice(source, BATCH)):
        yield batch
