"""Recordings as frames of pandas and polars, and as Parquet files: by these libraries, or by stand-ins for them."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

import pyebpf
from pyebpf.cli.report import guarded
from pyebpf.cli.show import run_show
from pyebpf.recording.frames import pandas_frame, polars_frame, types_of, write_parquet
from tests.recording.samples import KINDS, START, recording

#: Values of all types, missing ones, and bytes that are no text.
ROWS = [
    {
        "time": START,
        "pid": 7,
        "big": 2**64 - 1,
        "some": 2**53 + 1,
        "ratio": 0.5,
        "sure": True,
        "comm": "a\udcff",
        "stack": ("f", "g\udc80"),
        "numbers": (1, 2),
        "mixed": 5,
        "never": None,
    },
    {
        "time": START + 1,
        "pid": -8,
        "big": 0,
        "some": None,
        "ratio": 2,
        "sure": False,
        "comm": "é",
        "stack": (),
        "numbers": None,
        "mixed": {"a": (1,)},
        "never": None,
    },
]
TYPES = {
    "time": "time",
    "pid": "int",
    "big": "uint",
    "some": "int",
    "ratio": "float",
    "sure": "bool",
    "comm": "text",
    "stack": "texts",
    "numbers": "ints",
    "mixed": "text",
    "never": "text",
}
VALUES = {
    "pid": [7, -8],
    "big": [2**64 - 1, 0],
    "ratio": [0.5, 2.0],
    "sure": [True, False],
    "comm": ["a\\xff", "é"],
    "stack": [["f", "g\\x80"], []],
    "mixed": ["5", '{"a": [1]}'],
}


def rows():
    return iter(ROWS)


class Series:
    """A column of either frame: its values, and what its type is called."""

    def __init__(self, *arguments, dtype=None):
        *_, self.values = arguments
        self.dtype = dtype

    def to_list(self):
        return self.values


def stand_in(name):
    """A module with what is used of one of the libraries."""
    module = ModuleType(name)
    if name == "pandas":
        module.Series, module.DataFrame = Series, dict
    else:
        for each in ("Boolean", "Int64", "UInt64", "Float64", "String"):
            setattr(module, each, each)
        module.Datetime, module.List = "Datetime('{}')".format, "List({})".format
        module.Series = lambda label, values, dtype: SimpleNamespace(name=label, series=Series(values, dtype=dtype))
        module.DataFrame = lambda columns: {each.name: each.series for each in columns}
    return module


@pytest.fixture
def library(monkeypatch):
    """Make sure that a library can be imported: itself, or its stand-in."""

    def ready(name):
        if find_spec(name) is None:
            monkeypatch.setitem(sys.modules, name, stand_in(name))
        return name

    return ready


def test_types():
    """Of all rows; a column with values of several types is text, and so is one without values."""
    types = types_of(rows, ("time", "pid", "none"))
    assert types.found() == {**TYPES, "none": "text"}
    assert list(types.found())[:3] == ["time", "pid", "none"]
    assert {name for name in TYPES if types.has_nulls(name)} == {"some", "numbers", "never"}
    for values, kind in (
        ((2**64, 1), "text"),
        ((-1, 2**63), "text"),
        ((-(2**63), 2**63 - 1), "int"),
        ((True, 1), "text"),
        (((2**63,), (1,)), "text"),
    ):
        assert types_of(lambda values=values: iter([{"x": each} for each in values]), ()).found() == {"x": kind}


def test_pandas(library):
    """Whole numbers stay whole where some are missing."""
    library("pandas")
    frame = pandas_frame(rows, ("time",))
    assert {name: frame[name].to_list() for name in VALUES} == VALUES
    kinds = {name: str(frame[name].dtype) for name in TYPES}
    assert kinds["time"] == "datetime64[ns]"
    assert [kinds[name] for name in ("pid", "big", "some", "ratio", "sure")] == [
        "int64",
        "uint64",
        "Int64",
        "float64",
        "bool",
    ]
    assert frame["some"].to_list()[0] == 2**53 + 1
    assert list(pandas_frame(lambda: iter([]), ("time", "pid"))) == ["time", "pid"]


def test_polars(library):
    """Each column has one type."""
    library("polars")
    frame = polars_frame(rows, ("time",))
    assert {name: frame[name].to_list() for name in VALUES} == VALUES
    assert frame["some"].to_list() == [2**53 + 1, None]
    assert frame["never"].to_list() == [None, None]
    kinds = [str(frame[name].dtype) for name in ("pid", "big", "some", "ratio", "sure", "comm", "stack", "numbers")]
    assert kinds == ["Int64", "UInt64", "Int64", "Float64", "Boolean", "String", "List(String)", "List(Int64)"]
    assert str(frame["time"].dtype).startswith("Datetime(")


class Arrow(ModuleType):
    """What is used of pyarrow; `written` are the tables."""

    def __init__(self):
        super().__init__("pyarrow")
        for name in ("bool_", "int64", "uint64", "float64", "string"):
            setattr(self, name, lambda name=name: name)
        self.timestamp, self.list_ = "timestamp[{}, tz={tz}]".format, "list<{}>".format
        self.array = lambda values, type: (type, values)  # noqa: A006 - as it is called there
        self.schema = lambda columns, metadata: SimpleNamespace(names=[name for name, _ in columns], metadata=metadata)
        self.Table = SimpleNamespace(from_arrays=lambda arrays, schema: dict(zip(schema.names, arrays, strict=True)))
        self.parquet = ModuleType("pyarrow.parquet")
        self.parquet.ParquetWriter = lambda _file, schema: self._writer(schema)
        self.written, self.metadata = [], {}

    def _writer(self, schema):
        self.metadata = schema.metadata
        return nullcontext(SimpleNamespace(write_table=self.written.append))


def test_parquet(monkeypatch, tmp_path):
    """Columns of one type each, in batches; read back by pyarrow itself, if it is installed."""
    arrow = Arrow()
    monkeypatch.setattr("pyebpf.recording.frames.BATCH", 1)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", arrow)
        patch.setitem(sys.modules, "pyarrow.parquet", arrow.parquet)
        assert write_parquet(rows, ("time",), tmp_path / "x", {"command": "c"}) == 2
    assert arrow.metadata == {"command": "c"}
    first, second = arrow.written
    assert {name: first[name][0] for name in ("time", "pid", "big", "stack")} == {
        "time": "timestamp[ns, tz=UTC]",
        "pid": "int64",
        "big": "uint64",
        "stack": "list<string>",
    }
    assert {name: [*first[name][1], *second[name][1]] for name in VALUES} == VALUES
    if find_spec("pyarrow") is not None:
        path = tmp_path / "x.parquet"
        write_parquet(rows, ("time",), str(path), {"command": "c"})
        table = import_module("pyarrow.parquet").read_table(path)
        assert {name: table[name].to_pylist() for name in VALUES} == VALUES
        assert str(table.schema.field("time").type) == "timestamp[ns, tz=UTC]"
        assert table.schema.metadata[b"command"] == b"c"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_recording(kind, tmp_path, library):
    """As many rows in each frame as the recording has."""
    path = tmp_path / "file.rec"
    path.write_bytes(recording(kind))
    opened = pyebpf.open_recording(str(path))
    count = len(list(opened.rows()))
    assert count
    for name in ("pandas", "polars"):
        library(name)
        frame = getattr(opened, name)()
        assert len(frame["time"].to_list()) == count


def test_the_command(tmp_path, monkeypatch, capsys):
    """It writes what its filters leave; without pyarrow it says what to install."""
    path, out = tmp_path / "file.rec", tmp_path / "out.parquet"
    path.write_bytes(recording("events"))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        assert guarded(run_show, [str(path), "--parquet", str(out)]) == 1
        assert "pip install pyarrow" in capsys.readouterr().err
        assert not out.exists()
        with pytest.raises(ImportError, match="pip install pyarrow"):
            pyebpf.open_recording(str(path)).parquet(str(out))
    arrow = Arrow()
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", arrow.parquet)
    assert guarded(run_show, [str(path), "--parquet", str(out), "--where", "pid > 2"]) == 0
    assert "out.parquet: 2 rows" in capsys.readouterr().err
    assert arrow.written[0]["pid"] == ("int64", [3, 5])
    assert arrow.metadata["command"] == "pyebpf sample -d 5"
    for kind in KINDS:
        path.write_bytes(recording(kind))
        arrow.written.clear()
        assert guarded(run_show, [str(path), "--parquet", str(out)]) == 0
        ours = [row["time"] for row in pyebpf.open_recording(str(path)).rows()]
        assert [time for table in arrow.written for time in table["time"][1]] == ours
