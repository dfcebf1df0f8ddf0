"""Records of an opened tool as objects: those that the command prints, and their fields as plain values."""

from __future__ import annotations

import io
import json
import time
from datetime import datetime

import pytest

from pyebpf import Struct, u32, u64
from pyebpf.cli.catalogue import find, names
from pyebpf.endpoints import AF_INET, AF_INET6, AF_UNIX, Endpoints, SocketAddress
from pyebpf.output.histogram import log2
from pyebpf.output.sink import Sink
from pyebpf.output.stacks import Stack, write_stacks
from pyebpf.output.timestamps import Timestamps
from pyebpf.output.writers import histogram_writer, table_writer
from pyebpf.programs import execsnoop, ipecn
from pyebpf.symbols.frame import Frame
from pyebpf.tool import (
    Column,
    EventLines,
    EventTool,
    StackTool,
    SummaryTool,
    Tracer,
    dataclass,
    ends_columns,
    flag,
)

MAPPED = 0xFFFF << 32
ENDS = Endpoints(0, MAPPED | 0x7F000001, 0, 1, 32984, 43745, AF_INET6)


class Connect(Struct):
    time: u64
    pid: u32
    ends: Endpoints


@dataclass(frozen=True)
class Options:
    ports: bool = flag("-P", "--ports", help="print ports")


class Idle(Tracer):
    """Traces nothing."""

    def __init__(self, options):
        self.options = options

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


COMMON = {"name": "made", "doc": "Made up.", "tracing": "nothing", "options": Options, "build": Idle}
COLUMNS = (Column("PID", 7), *ends_columns())


def printed(write):
    """What a writer prints, decoded."""
    text = io.StringIO()
    write(Sink(text))
    return [json.loads(line) for line in text.getvalue().splitlines()]


def test_an_event_as_the_command_prints_it():
    """Its time is the event's, its fields are the columns' with the options that `open` was given."""
    tool = EventTool(
        records=lambda *_: iter(()),
        time="time",
        columns=lambda options: COLUMNS if options.ports else COLUMNS[:1],
        **COMMON,
    )
    event = Connect(time.monotonic_ns() - 5 * 10**9, 7, ENDS)
    with tool.open(ports=True) as found:
        assert isinstance(found.as_json(event), dict)
        seen = json.loads(json.dumps(found.as_json(event)))
    (expected,) = printed(lambda sink: table_writer("json", COLUMNS, sink).record(event, Timestamps().iso(event.time)))
    when, expected_when = (datetime.fromisoformat(each.pop("time")[:26]) for each in (seen, expected))
    assert abs((when - expected_when).total_seconds()) < 1
    assert (
        seen
        == expected
        == {
            "pid": 7,
            "local_address": "127.0.0.1",
            "local_port": 32984,
            "remote_address": "::1",
            "remote_port": 43745,
        }
    )
    with tool.open() as found:
        assert set(found.as_json(event)) == {"time", "pid"}


def test_what_a_summary_counted_has_the_time_of_its_interval():
    """Records and histograms; the events of a tool with lines have the fields of these."""
    histogram = log2([0, 0, 3], unit="usecs", labels={"disk name": "vda"})
    event = Connect(1, 7, ENDS)
    lines = EventLines(records=lambda *_: iter(()), columns=COLUMNS[:1], record=Connect, time="time")
    tool = SummaryTool(snapshot=lambda *_: [histogram], lines=lines, **COMMON)
    with tool.open() as snapshot:
        (found,) = snapshot()
        time.sleep(0.01)
        first, second = snapshot.as_json(found), snapshot.as_json(found)
        assert first == second
        assert set(snapshot.as_json(event)) == {"time", "pid"}
    (expected,) = printed(lambda sink: histogram_writer("json", sink).interval([histogram], first["time"]))
    assert json.loads(json.dumps(first)) == expected
    assert expected["disk_name"] == "vda"


def test_a_stack_as_the_command_prints_it():
    """Names of frames, and the time at which counting ended."""
    stack = Stack(3, "wget", 7, (Frame("read", 1, "libc", 0),), ())
    tool = StackTool(collect=lambda *_: [stack], **COMMON)
    with tool.open() as collect:
        assert collect(0.0) == [stack]
        found = collect.as_json(stack)
    (expected,) = printed(lambda sink: write_stacks([stack], "json", sink, time=found["time"]))
    assert json.loads(json.dumps(found)) == expected


def test_ends_as_a_dictionary():
    """Addresses as text, in a record that has them, too."""
    ends = {"local": "127.0.0.1", "local_port": 32984, "remote": "::1", "remote_port": 43745, "family": AF_INET6}
    assert ENDS.as_dict() == ends
    assert Connect(5, 7, ENDS).as_dict() == {"time": 5, "pid": 7, "ends": ends}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            SocketAddress(0, MAPPED | 0x7F000001, AF_INET, 443, 16, 0, ""),
            {"family": AF_INET, "address": "127.0.0.1", "port": 443, "path": None},
        ),
        (
            SocketAddress(0, 0, AF_UNIX, 0, 8, 1, "hello"),
            {"family": AF_UNIX, "address": None, "port": None, "path": "@hello"},
        ),
        (SocketAddress(0, 0, 16, 0, 12, 0, ""), {"family": 16, "address": None, "port": None, "path": None}),
    ],
)
def test_a_socket_address_as_a_dictionary(address, expected):
    """The family, and what it has: an address and a port, or a path."""
    assert address.as_dict() == expected


def test_arguments_as_a_dictionary():
    """A list of text, without the memory that they were read to."""
    memory = b"/bin/sh\0-c\0".ljust(execsnoop.ROWS * execsnoop.ROW, b"\0")
    rows = [memory[at : at + execsnoop.ROW] for at in range(0, len(memory), execsnoop.ROW)]
    call = execsnoop.Exec(1, 11, 7, 1, 0, 0, 2, 3, False, "sh", "bash", "/bin/sh", rows)
    assert json.loads(json.dumps(call.as_dict())) == {
        "time": 1, "pid": 7, "ppid": 1, "uid": 0, "result": 0, "cpu": 3, "cut": False,
        "comm": "sh", "parent_comm": "bash", "path": "/bin/sh", "args": ["/bin/sh", "-c"],
    }  # fmt: skip


def test_a_marked_packet_as_a_dictionary():
    """Its addresses, whatever their version."""
    address = bytes(15) + b"\1"
    fields = {"source4": 0, "destination4": 0, "source6": address, "destination6": address}
    mark = ipecn.Mark(time=1, version=6, outgoing=0, interface="lo", **fields)
    assert mark.as_dict() == {
        "time": 1, "direction": "in", "interface": "lo", "version": 6, "source": "::1", "destination": "::1",
    }  # fmt: skip


def struct_records():
    """The Structs that tools' records are, with those of their modes and lines."""
    tools = [find(name) for name in names()]
    parts = [each for tool in tools for each in (tool, *tool.modes.values(), getattr(tool, "lines", None)) if each]
    records = {part.record for part in parts}
    return sorted((each for each in records if isinstance(each, type) and issubclass(each, Struct)), key=str)


@pytest.mark.parametrize("record", struct_records(), ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_every_record_is_json(record):
    """`json.dumps` takes what `as_dict` gives of any tool's record: none has bytes or raw halves of addresses."""
    found = record.from_bytes(bytes(record.layout.size)).as_dict()
    text = json.dumps(found)
    assert '"local_high"' not in text
    assert '"high"' not in text
