"""Lines of records: what is written for a table's columns is what each column's own text would be."""

from __future__ import annotations

from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from hypothesis import given, strategies as st

from pyebpf.output.columns import Column, Row
from pyebpf.output.sink import Sink


class Colour(IntEnum):
    """A number with a name."""

    RED = 7


VALUES = st.one_of(
    st.integers(),
    st.booleans(),
    st.floats(),
    st.none(),
    st.text(),
    st.text("abc\\ \x1b\u00e9\u4e2d\udcff"),
    st.binary(),
    st.just(Colour.RED),
)
COLUMNS = st.builds(
    Column,
    st.just("N"),
    st.integers(0, 12),
    st.sampled_from("<>"),
    key=st.sampled_from(["a", "b.c", "class", lambda record: record.a]),
    scale=st.sampled_from([1, 1000, 1024]),
    decimals=st.sampled_from([None, 0, 2]),
    cut=st.booleans(),
    field=st.none(),
)


def _attribute(record: Any, key: Any) -> Any:
    if callable(key):
        return key(record)
    for part in key.split("."):
        record = getattr(record, part)
    return record


@given(st.lists(COLUMNS, min_size=1, max_size=4), VALUES, VALUES)
def test_a_line_is_its_columns_texts(columns, first, second):
    """Numbers, names, whatever bytes a process chose, padded and cut."""
    record = SimpleNamespace(a=first, b=SimpleNamespace(c=second), **{"class": first})
    try:
        wanted = " ".join(column.text(_attribute(record, column.key)) for column in columns).rstrip()
    except (OverflowError, ValueError) as error:  # an int that no float can hold, or infinity cut to an int
        wanted = error
    try:
        found = Row(columns).line(record)
    except (OverflowError, ValueError) as error:
        found = error
    assert type(found) is type(wanted)
    assert isinstance(wanted, Exception) or found == wanted


class Written:
    """A stream that notes each write."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, text: str) -> None:
        """Note it."""
        self.texts.append(text)

    def flush(self) -> None:
        """Nothing is kept."""


def test_a_sink_that_holds_writes_at_once_what_came_together():
    """In order, one write for all; nothing is held beyond 64 KiB."""
    stream = Written()
    sink = Sink(stream)  # type: ignore[arg-type]  # all that it asks of a stream
    sink.line("first")
    sink.holds = True
    for number in range(3):
        sink.line(str(number))
    assert stream.texts == ["first\n"]
    sink.flush()
    sink.flush()
    assert stream.texts == ["first\n", "0\n1\n2\n"]
    sink.write("x" * 65_536)
    assert len(stream.texts) == 3
    sink.holds = False
    sink.line("last")
    assert stream.texts[-1] == "last\n"
