"""Tools as libraries, and the stop that their loops obey."""

from __future__ import annotations

import inspect
import json
import os
import signal
import threading
import time

import pytest

from pyebpf.cli.catalogue import find, names
from pyebpf.cli.run import run_tool
from pyebpf.dataclass import MISSING, fields
from pyebpf.errors import InvalidValue
from pyebpf.tool import Column, EventTool, StackTool, Stop, SummaryTool, dataclass, events
from tests.cli.fakes import EventOptions, Tracer


def test_an_event_tool_yields_typed_records_and_detaches(fakes):
    """`with tool.open(...) as records`; leaving ends the iterator."""
    handler = signal.getsignal(signal.SIGINT)
    with fakes.EVENTS.open(records=17) as records:
        seen = [next(records) for _ in range(17)]
        assert signal.getsignal(signal.SIGINT) is handler
    assert seen[-1] == fakes.Open(17, "cat", 25500, "/tmp/17")
    assert list(records) == []


def test_a_summary_tool_yields_its_snapshot(fakes):
    """A call gives what was counted since the one before."""
    with fakes.SUMMARY.open(by_disk=True, name="vdb") as snapshot:
        (histogram,) = snapshot()
    assert (histogram.total, histogram.labels) == (6, {"disk": "vdb"})


MADE = []


class Attaching(Tracer):
    """A tracer that sees what attaches it."""

    def __enter__(self):
        super().__enter__()
        MADE.append(self)
        self.counts = 3
        self.ring.push("its own file")
        return self


def taken(tracer, _options):
    """The counts since the call before."""
    counts, tracer.counts = getattr(tracer, "counts", 0), 0
    return [Each(counts)]


@dataclass(frozen=True)
class Each:
    """A row."""

    count: int


COMMON = {"name": "attaching", "doc": "Attach.", "tracing": "nothing", "options": EventOptions, "build": Attaching}


def test_what_attaching_causes_is_not_reported(capfd):
    """Events, counts and stacks from before the last probe was attached: in libraries, and by the command."""
    collected, partly = [], []
    opens = EventTool(
        records=lambda tracer, _, stop: events(tracer.ring, stop),
        columns=[Column("A", key=str, field="a")],
        reset=partly.append,
        **COMMON,
    )
    counts = SummaryTool(snapshot=taken, columns=[Column("COUNT")], reset=partly.append, **COMMON)
    stacks = StackTool(collect=lambda tracer, *_: [tracer.counts], reset=collected.append, **COMMON)
    with opens.open() as records:
        MADE[-1].ring.push("a file")
        assert next(records) == "a file"
    with counts.open() as snapshot:
        assert [row.count for row in snapshot()] == [0]
    assert partly == MADE[-2:]
    with stacks.open():
        assert len(collected) == 1
    assert run_tool(opens, ["-d", "0.05"]) == 0
    assert run_tool(counts, ["-d", "0.05", "--json"]) == 0
    heading, counted = capfd.readouterr().out.splitlines()
    assert heading == "A"
    assert list(json.loads(counted)) == ["time", "count"]
    assert json.loads(counted)["count"] == 0


def test_bounds_hold_for_values_given_in_python(fakes):
    """Before anything is built."""
    for wrong, message in (
        ({"pid": 0}, "^pid: 0 is below 1"),
        ({"pid": "x"}, "^pid='x': give an integer or None, not str"),
        ({"records": True}, "^records=True: give an integer, not bool"),
        ({"ports": [80, 99999]}, "^ports: 99999 is above 65535"),
        ({"ports": 80}, "^ports=80: give a tuple of numbers, not int"),
        ({"ports": (80, "x")}, r"^ports=\(80, 'x'\): give an integer, not str"),
        ({"kind": "c"}, "^kind: 'c' is none of a, b"),
    ):
        with pytest.raises(InvalidValue, match=message), fakes.EVENTS.open(**wrong):
            pass


@pytest.mark.parametrize("name", names())
def test_the_options_of_a_library_are_its_parameters(name):
    """help() and editors show them: names, types and defaults, and a line on each; none that is of the output alone."""
    tool = find(name)
    described = inspect.signature(tool.open).parameters
    declared = [item for item in fields(tool.options) if not item.metadata["spec"].output_only]
    assert list(described) == [*(item.name for item in declared), *(["buffer"] if tool.prints_events else [])]
    for item in declared:
        default = inspect.Parameter.empty if item.default is MISSING else item.default
        assert (described[item.name].annotation, described[item.name].default) == (item.type, default)
        assert f"{item.name}: {item.metadata['spec'].help}" in tool.open.__doc__
    assert tool.open.__name__ == "open"


def test_an_exception_in_the_body_passes_through(fakes):
    """What was opened is closed, as for every test."""
    with pytest.raises(ZeroDivisionError), fakes.EVENTS.open() as records:
        1 / (next(records).pid - 1)


def test_set_ends_a_wait_from_another_thread():
    """At once, not at the end of the wait."""
    with Stop() as stop:
        timer = threading.Timer(0.05, stop.set)
        timer.start()
        begun = time.monotonic()
        assert stop.wait(30)
        assert time.monotonic() - begun < 5
        timer.join()
        assert stop.is_set()
        assert stop.remaining() == 0


def test_a_byte_at_the_wakeup_descriptor_ends_a_wait():
    """That is how a signal's arrival is seen though its handler has not run: the wait returns, to be asked again."""
    with Stop() as stop:
        os.write(stop.wakeup, b"\2")
        begun = time.monotonic()
        assert not stop.wait(30)
        assert time.monotonic() - begun < 5


def test_a_deadline_ends_waits_and_shortens_them():
    """`end_after` counts from its call."""
    with Stop() as stop:
        assert stop.remaining() is None
        assert not stop.wait(0.01)
        stop.end_after(0.05)
        begun = time.monotonic()
        assert stop.wait(30)
        assert 0.04 < time.monotonic() - begun < 5
        assert stop.is_set()


def test_a_readable_descriptor_ends_a_wait_without_ending_the_loop():
    """A ring buffer with records."""
    read, write = os.pipe()
    os.write(write, b"x")
    with Stop() as stop:
        assert not stop.wait(30, read)
    os.close(read)
    os.close(write)


def test_a_vanished_reader_is_a_stop():
    """The write end of a pipe whose read end was closed."""
    read, write = os.pipe()
    with Stop(reader=write) as stop:
        assert not stop.wait(0.01)
        os.close(read)
        assert stop.wait(30)
    os.close(write)


def test_a_full_wakeup_pipe_does_not_block():
    """However often somebody asks."""
    with Stop() as stop:
        while True:
            try:
                os.write(stop.wakeup, b"\0" * 4096)
            except BlockingIOError:
                break
        stop.set()
        assert stop.is_set()


def test_a_closed_stop_is_set_and_can_be_set_again():
    """A handler may run late."""
    stop = Stop()
    stop.close()
    stop.set()
    stop.close()
    assert stop.is_set()
    assert stop.wait(30)


def test_records_that_are_there_when_the_stop_comes_are_still_read(fakes):
    """Exactly those: the buffer is emptied once more, then the loop ends."""
    ring = fakes.Ring()
    with Stop() as stop:
        ring.push(*range(11))
        seen = []
        for record in events(ring, stop):
            seen.append(record)
            if record == 10:
                stop.set()
                ring.push(*range(11, 13))
    ring.close()
    assert seen == list(range(13))
