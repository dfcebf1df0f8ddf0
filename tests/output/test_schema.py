"""The schema of what tools print: types from annotations, keys with dots, None, lists; and the same of every tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pyebpf.output.columns import Column
from pyebpf.output.schema import (
    drops_schema,
    histogram_schema,
    record_schema,
    schema_of_lines,
    stack_schema,
)
from pyebpf.types import Struct, char, field, u64
from tests.support.json_schema import faults

if TYPE_CHECKING:
    from ipaddress import IPv4Address

TIME = "2026-11-24T09:30:00.123456789+01:00"


@dataclass
class End:
    port: int
    address: IPv4Address

    @property
    def version(self) -> int:
        """A property's type is what it returns."""
        return 4


@dataclass
class Base:
    pid: int


@dataclass
class Record(Base):
    comm: str
    share: float
    known: bool
    local: End
    state: str | None
    length: int | None
    stack: tuple[str, ...]
    channels: list[int]
    way: str | int

    @property
    def total(self) -> int | None:
        """A property that may have nothing."""
        return None


class Kernels(Struct):
    """A record of a probe's."""

    time: u64
    count: u64
    comm: str = field(char[16])


def type_of(record, **column):
    """The schema of one column, without its description."""
    name = column.get("field", "it")
    found = record_schema([Column("IT", **{"field": "it", **column})], record)
    return {key: value for key, value in found["properties"][name].items() if key != "description"}


@pytest.mark.parametrize(
    ("key", "schema"),
    [
        ("pid", {"type": "integer"}),
        ("comm", {"type": "string"}),
        ("share", {"type": "number"}),
        ("known", {"type": "boolean"}),
        ("local", {"type": "string"}),
        ("local.port", {"type": "integer"}),
        ("local.address", {"type": "string"}),
        ("local.version", {"type": "integer"}),
        ("state", {"type": ["string", "null"]}),
        ("length", {"type": ["integer", "null"]}),
        ("total", {"type": ["integer", "null"]}),
        ("stack", {"type": "array", "items": {"type": "string"}}),
        ("channels", {"type": "array", "items": {"type": "integer"}}),
        ("way", {"type": "string"}),
        ("nothing", {}),
        ("nothing.below", {}),
    ],
)
def test_types_of_attributes(key, schema):
    """By the annotations of a class and those that it inherits from, and of properties."""
    assert type_of(Record, key=key) == schema


def test_types_that_a_column_says():
    """`type` goes before the record's, `value` before `key`; a function without a type gives text."""
    assert type_of(Record, key="pid", type="int | None") == {"type": ["integer", "null"]}
    assert type_of(Record, key=str, value="pid") == {"type": "integer"}
    assert type_of(Record, key=str) == {"type": "string"}
    assert type_of(None, key="pid") == {}


def test_types_of_a_struct():
    """The kernel's integers are integers."""
    assert type_of(Kernels, key="count") == {"type": "integer"}
    assert type_of(Kernels, key="comm") == {"type": "string"}


def test_the_time_is_first_and_columns_of_text_alone_are_not_there():
    """All fields are required, and there are no others."""
    columns = [Column("TIME"), Column("A", key=str, field=None), Column("PID"), Column("COMM", printed=False)]
    found = record_schema(columns, Record)
    assert list(found["properties"]) == found["required"] == ["time", "pid", "comm"]
    assert not found["additionalProperties"]
    assert found["properties"]["pid"]["description"] == "column PID"


def test_lines_of_a_tool():
    """A line is a record or says what was dropped; anything else is at fault."""
    schema = schema_of_lines("t", "d", [record_schema([Column("PID"), Column("STATE")], Record)])
    good = [{"time": TIME, "pid": 1, "state": None}, {"time": TIME, "dropped": {"opens: ring buffer full": 7}}]
    assert [faults(schema, line) for line in good] == [[], []]
    bad = [
        {"pid": 1, "state": None},
        {"time": TIME, "pid": "1", "state": None},
        {"time": TIME, "pid": 1, "state": None, "more": 1},
        {"time": TIME, "dropped": {"opens": -1}},
        {**good[0], **good[1]},
    ]
    assert all(faults(schema, line) for line in bad)


def test_histograms_stacks_and_losses():
    """What the writers make of them."""
    buckets = [{"low": None, "high": -1, "count": 2}, {"low": 0, "high": 0, "count": 0}]
    histogram = {"time": TIME, "disk": "vda", "unit": "usecs", "buckets": buckets}
    stack = {"time": TIME, "comm": "c", "pid": 7, "user": ["f"], "kernel": [], "count": 3}
    assert not faults(histogram_schema(), histogram)
    assert not faults(stack_schema(), stack)
    assert not faults(stack_schema(), {"time": TIME, "comm": "c", "count": 3})
    assert not faults(drops_schema(), {"time": TIME, "dropped": {}})
    assert faults(histogram_schema(), {**histogram, "unit": 5})
    assert faults(stack_schema(), {**stack, "user": "f"})
