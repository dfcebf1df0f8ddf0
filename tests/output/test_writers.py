"""Writers and the sink: the same declaration as text, CSV and JSON; flushing; readers that go away."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyebpf.output.columns import Column
from pyebpf.output.histogram import log2
from pyebpf.output.sink import ReaderGone, Sink
from pyebpf.output.writers import histogram_writer, table_writer


@dataclass
class Call:
    name: str
    count: int | None


COLUMNS = [Column("SYSCALL", 10, key="name", field="syscall"), Column("COUNT", 8, ">")]
CALLS = [Call("read", 17), Call('a,"b\n', 5)]


def written(make, *items, times=None):
    stream = io.StringIO()
    writer = make(Sink(stream))
    for number, item in enumerate(items):
        writer.interval(item, times[number] if times else None)
    return stream.getvalue()


def table(form, *items, times=None):
    return written(lambda sink: table_writer(form, COLUMNS, sink), *items, times=times)


def histograms(form, *items, times=None):
    return written(lambda sink: histogram_writer(form, sink), *items, times=times)


def test_a_text_table_repeats_its_heading_each_interval():
    """After an empty line, and the time where that is wanted."""
    expected = "\n{}SYSCALL       COUNT\nread             17\n"
    assert table("text", CALLS[:1]) == expected.format("")
    assert table("text", CALLS[:1], [], times=["10:00:01", "10:00:02"]) == (
        expected.format("10:00:01\n") + "\n10:00:02\nSYSCALL       COUNT\n"
    )


def test_csv_has_one_heading_and_survives_any_text():
    """Quotes and commas come back; control characters are escaped."""
    rows = list(csv.reader(io.StringIO(table("csv", CALLS, [Call("x", None)], times=["1", "2"]))))
    assert rows == [
        ["time", "syscall", "count"], ["1", "read", "17"], ["1", 'a,"b\\x0a', "5"], ["2", "x", ""],
    ]  # fmt: skip


def test_a_sequence_is_one_cell_of_csv():
    """Semicolons stand between the items, and are escaped in them: in a table and in the key of a histogram."""
    stack = ("inner", "<[T; 4]>::f\n")
    columns = [Column("STACK", key="name", field="stack", printed=False), Column("BELOW", key="name", below=True)]
    text = written(lambda sink: table_writer("csv", columns, sink), [Call(stack, 1), Call([], 1)])
    cell = r"inner;<[T\x3b 4]>::f\x0a"
    assert list(csv.reader(io.StringIO(text))) == [["time", "stack", "name"], ["", cell, cell], ["", "", ""]]
    found = histograms("csv", [log2([0, 1], unit="usecs", labels={"stack": stack})])
    assert next(csv.DictReader(io.StringIO(found)))["stack"] == cell


def test_json_has_one_object_a_record():
    """Its keys are the time and the fields; its text is the text."""
    lines = [json.loads(line) for line in table("json", CALLS, times=["10:00:01"]).splitlines()]
    assert lines[1] == {"time": "10:00:01", "syscall": 'a,"b\n', "count": 5}
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("text", "SYSCALL       COUNT\nread             17\n"),
        ("csv", "time,syscall,count\nT,read,17\n"),
        ("json", '{"time": "T", "syscall": "read", "count": 17}\n'),
    ],
)
def test_events_come_one_by_one_below_one_heading(form, text):
    """JSON needs no heading."""
    stream = io.StringIO()
    writer = table_writer(form, COLUMNS, Sink(stream))
    writer.begin()
    writer.record(CALLS[0], "T")
    assert stream.getvalue() == text


def test_keyed_histograms_have_a_heading_each_and_empty_lines_between():
    """Bcc's sections."""
    text = histograms("text", [log2([1], labels={"disk": "vda"}), log2([1], labels={"disk": "vdb"})])
    assert [line[:12] for line in text.split("\n")] == [
        "", "disk = 'vda'", "     value  ", "         0 -", "", "disk = 'vdb'", "     value  ", "         0 -", "",
    ]  # fmt: skip


def test_a_time_stands_above_the_histograms_of_an_interval():
    """-T; an interval without events still shows that it passed."""
    assert histograms("text", [log2([1])], times=["10:00:01"]).startswith("\n10:00:01\n     value")
    assert histograms("text", [log2([1], labels={"a": 1})], times=["10:00:01"]).startswith("\n10:00:01\n\na = 1\n")


@pytest.mark.parametrize("nothing", [[], [log2([0, 0])], [log2([0], labels={"disk": "vda"})]])
def test_an_interval_in_which_nothing_was_seen(nothing):
    """No object, no row, and a line that says so: whether or not there is a histogram without counts."""
    some = [log2([0, 17], unit="usecs", labels={"disk": "vdb"})]
    assert histograms("json", nothing, times=["1"]) == ""
    assert histograms("csv", nothing, some, times=["1", "2"]) == histograms("csv", some, times=["2"])
    assert histograms("text", nothing) == "\n(nothing seen)\n"
    assert histograms("text", nothing, times=["10:00:01"]) == "\n10:00:01\n(nothing seen)\n"
    assert histograms("text", some, nothing).endswith("|\n\n(nothing seen)\n")
    assert histograms("text", [*nothing, *some]) == histograms("text", some)


def test_json_buckets_are_objects_with_low_high_and_count():
    """A side without bound is null."""
    (line,) = histograms(
        "json", [log2([0, 1], negative=2, unit="usecs", labels={"backlog limit": 5})], times=["T"]
    ).splitlines()
    assert json.loads(line) == {
        "time": "T",
        "backlog_limit": 5,
        "unit": "usecs",
        "buckets": [
            {"low": None, "high": -1, "count": 2},
            {"low": 0, "high": 0, "count": 0},
            {"low": 1, "high": 1, "count": 1},
        ],
    }


def test_csv_has_a_line_a_bucket():
    """Key, unit, low, high, count; the heading once."""
    item = log2([0, 1], unit="usecs", labels={"disk": "vda"})
    assert histograms("csv", [item], [item], times=["1", "2"]).splitlines() == [
        "time,disk,unit,low,high,count",
        "1,vda,usecs,1,1,1",
        "2,vda,usecs,1,1,1",
    ]


def test_each_write_is_flushed():
    """An event's line is there when the event is."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream, os.fdopen(read, "rb", buffering=0) as reader:
        Sink(stream).line("one")
        assert reader.read(100) == b"one\n"


def test_a_vanished_reader_is_reported_once_and_the_stream_is_silenced():
    """What is left in the buffer is dropped without a word."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        sink = Sink(stream)
        with pytest.raises(ReaderGone):
            sink.line("one")
        sink.line("two")


def test_a_full_disk_is_an_error_and_leaves_nothing_for_the_interpreters_exit():
    """/dev/full takes nothing: one OSError, no second complaint when Python flushes at the end."""
    script = (
        "import sys; from pyebpf.output.sink import Sink\n"
        "try: Sink.of(sys.stdout).line('x')\n"
        "except OSError as error: print(error.errno, error.filename, file=sys.stderr)\n"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (0, "28 standard output\n")


def test_a_terminal_that_lacks_a_character_gets_its_escape():
    """LC_ALL=C and the like must not end a tool."""
    raw = io.BytesIO()
    sink = Sink.of(io.TextIOWrapper(raw, encoding="ascii"))
    sink.line("café")
    assert raw.getvalue() == b"caf\\xe9\n"
