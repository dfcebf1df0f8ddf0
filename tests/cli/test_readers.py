"""The objects that `open` gives: events that can be polled and waited for, counts and stacks, and what was dropped."""

from __future__ import annotations

import asyncio
import inspect
import json
import select
import threading
import time
import typing
from contextlib import AbstractContextManager
from ipaddress import ip_address
from itertools import islice

import pytest

from pyebpf import Struct, u32
from pyebpf.cli.catalogue import find, names
from pyebpf.errors import InvalidValue, NotLoaded
from pyebpf.output.histogram import log2
from pyebpf.programs import tcplife
from pyebpf.tool import (
    Column,
    Counted,
    Events,
    EventTool,
    Histogram,
    Record,
    Snapshot,
    Stack,
    Stacks,
    StackTool,
    dataclass,
    events,
)
from pyebpf.tool.signature import has_field
from tests.cli.fakes import EventOptions, Tracer

MADE = []


class Traced(Tracer):
    """A tracer whose ring the test fills."""

    def __enter__(self):
        super().__enter__()
        MADE.append(self)
        return self

    def resize_buffers(self, size):
        self.size = size


COMMON = {"name": "numbers", "doc": "Numbers.", "tracing": "numbers", "options": EventOptions, "build": Traced}
NUMBERS = EventTool(
    records=lambda tracer, _, stop: events(tracer.ring, stop),
    columns=[Column("A", key=str, field="a")],
    drop_labels={"ring": "numbers"},
    **COMMON,
)


@pytest.fixture
def numbers():
    """The events, and the ring that they come from."""
    with NUMBERS.open() as found:
        yield found, MADE[-1].ring


def test_poll_gives_what_is_there(numbers):
    """All of it, in order, without waiting; nothing when nothing is there."""
    found, ring = numbers
    assert isinstance(found, Events)
    assert found.poll() == []
    ring.push(1, 2, 3)
    assert found.poll(0) == [1, 2, 3]
    assert found.poll(0) == []


def test_poll_waits_for_the_first_record(numbers):
    """As long as it may, or until a record comes."""
    found, ring = numbers
    began = time.monotonic()
    assert found.poll(0.05) == []
    assert time.monotonic() - began >= 0.05
    timer = threading.Timer(0.05, ring.push, (7,))
    timer.start()
    assert found.poll(None) == [7]
    timer.join()


def test_loops_polls_and_next_share_the_records(numbers):
    """Each record is given once, in order, whoever asks for it: what a loop left behind, too."""
    found, ring = numbers
    ring.push(*range(1, 18))
    assert next(found) == 1
    assert list(islice(found, 2)) == [2, 3]
    for number in found:
        assert number == 4
        break
    for number in found:
        assert number == 5
        assert found.poll(0) == [*range(6, 18)]
        ring.push(18, 19)
        break
    assert [next(found), next(found)] == [18, 19]


def test_a_loop_goes_on_behind_a_poll(numbers):
    """`poll` in a loop's body takes what is there, and the loop waits for what comes then."""
    found, ring = numbers
    ring.push(1, 2)
    seen = []
    for number in found:
        seen += [number, found.poll(0)]
        if number == 3:
            break
        ring.push(3)
    assert seen == [1, [2], 3, []]


def test_the_descriptor_is_readable_when_poll_has_something(numbers):
    """Records in the buffer, and those that a loop has read and not yet given."""
    found, ring = numbers

    def readable():
        return bool(select.select([found], [], [], 0)[0])

    assert not readable()
    ring.push(1, 2, 3)
    assert readable()
    assert next(found) == 1
    assert readable()
    assert found.poll(0) == [2, 3]
    assert not readable()
    ring.push(4)
    assert readable()
    assert found.poll(0) == [4]


def test_records_that_waited_for_the_first_look_at_the_descriptor_are_kept(numbers):
    """`fileno` looks which descriptor there is."""
    found, ring = numbers
    ring.push(1, 2)
    assert select.select([found], [], [], 0)[0]
    assert (next(found), found.poll(0)) == (1, [2])


def test_an_exception_while_polling_loses_nothing():
    """Records that were read by then come with the next call."""

    def records(tracer, _options, stop):
        for each in events(tracer.ring, stop):
            if each == 2 and not tracer.loaded > 1:
                tracer.loaded += 1
                raise KeyboardInterrupt
            yield each

    tool = EventTool(records=records, columns=[Column("A", key=str, field="a")], **COMMON)
    with tool.open() as found:
        MADE[-1].ring.push(1, 2)
        with pytest.raises(KeyboardInterrupt):
            found.poll(0)
        MADE[-1].ring.push(3)
        assert found.poll(0) == [1, 3]


def test_records_without_a_descriptor_say_so():
    """A tool whose `records` reads nothing by `events`."""
    tool = EventTool(records=lambda *_: iter([]), columns=[Column("A", key=str, field="a")], **COMMON)
    with tool.open() as found, pytest.raises(InvalidValue, match=r"tool numbers has no descriptor .* `events"):
        found.fileno()


def test_the_end_of_the_block_is_the_end():
    """Loops end; what would wait says why it cannot."""
    with NUMBERS.open() as found:
        MADE[-1].ring.push(1, 2)
        loop = iter(found)
        assert (next(loop), found.fileno() > 0) == (1, True)
    assert [*loop, *found] == []
    for call in (found.poll, found.fileno):
        with pytest.raises(NotLoaded, match=r"numbers has ended: read inside `with numbers\.open"):
            call()


@pytest.mark.parametrize("kind", ["events", "counts", "stacks"])
def test_drops_are_counted_in_the_commands_words(fakes, kind):
    """While it runs, and after its end what there was by then."""
    stacks = StackTool(collect=lambda *_: [], **COMMON)
    tool = {"events": fakes.EVENTS, "counts": fakes.COUNTS, "stacks": stacks}[kind]
    with tool.open(lose=True) as found:
        assert found.dropped == {"ring buffer full": 23}
    assert found.dropped == {"ring buffer full": 23}
    with tool.open() as found:
        assert found.dropped == {}


def test_drops_have_the_tools_labels(monkeypatch):
    """As the command's line has them."""
    monkeypatch.setattr(Traced, "dropped", {"ring: ring buffer full": 5, "other: map full": 0})
    with NUMBERS.open() as found:
        assert found.dropped == {"numbers: ring buffer full": 5}


def test_the_size_of_the_buffer():
    """As the command's --buffer: the next power of two."""
    for size, made in ((4096, 4096), (5000, 8192), (1 << 20, 1 << 20)):
        with NUMBERS.open(buffer=size):
            assert MADE[-1].size == made
    with NUMBERS.open(buffer=None):
        assert not hasattr(MADE[-1], "size")


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (3, r"^buffer: 3 bytes are too few for a buffer: give 4096 \(4K\) or more"),
        (1 << 31, r"^buffer: 2147483648 bytes are too many for a buffer: give 1073741824 \(1G\) or less"),
        ("8M", r"^buffer='8M': give bytes, such as 16777216, not str"),
        (True, r"^buffer=True: give bytes"),
    ],
)
def test_a_size_that_no_buffer_has(size, message):
    """It is refused before anything is loaded."""
    loaded = len(MADE)
    with pytest.raises(InvalidValue, match=message), NUMBERS.open(buffer=size):
        pass
    assert len(MADE) == loaded


def test_a_tool_without_events_has_no_buffer(fakes):
    """Its `open` has no such parameter; a summary with lines between has one."""
    with pytest.raises(TypeError, match="buffer"):
        fakes.SUMMARY.open(buffer=4096)
    assert "buffer" in inspect.signature(fakes.MIXED.open).parameters


def test_options_of_the_output_alone_are_no_parameters():
    """They would change nothing about the records."""
    for option in ("elapsed", "wide", "graph"):
        with pytest.raises(TypeError, match=option):
            tcplife.open(**{option: True})


@pytest.mark.parametrize("name", names())
def test_help_names_what_open_gives(name):
    """The reader, and the class of its records, which have as_dict()."""
    tool = find(name)
    (given,) = typing.get_args(typing.get_type_hints(tool.open)["return"])
    assert typing.get_origin(typing.get_type_hints(tool.open)["return"]) is AbstractContextManager
    for each in typing.get_args(given) if typing.get_origin(given) is typing.Union else (given,):
        if each is Stacks:
            assert hasattr(Stack, "as_dict")
            continue
        assert typing.get_origin(each) in {Events, Snapshot}
        (record,) = typing.get_args(each)
        assert hasattr(record, "as_dict"), record
    assert (typing.get_origin(given) is Events or not isinstance(tool, EventTool)) or tool.modes
    lines = getattr(tool, "lines", None)
    assert lines is None or hasattr(lines.record, "as_dict")


def test_a_record_as_a_dictionary():
    """Plain values that JSON takes: nested records, sequences, addresses; a count has its key's fields and labels."""

    class Key(Struct):
        pid: u32
        device: u32

    @dataclass(frozen=True)
    class Seen(Record):
        address: object
        key: Key
        parts: tuple[object, ...]

    seen = Seen(ip_address("192.0.2.1"), Key(1, 2), (1, None, "x"))
    plain = {"address": "192.0.2.1", "key": {"pid": 1, "device": 2}, "parts": [1, None, "x"]}
    assert seen.as_dict() == plain
    assert json.loads(json.dumps(seen.as_dict())) == plain
    counted = Counted(Key(7, 8), 17, {"device": "vda"})
    assert counted.as_dict() == {"pid": 7, "device": "vda", "count": 17}
    histogram = log2([0, 3], unit="usecs", labels={"disk": "vda"})
    assert isinstance(histogram, Histogram)
    assert histogram.as_dict() == {
        "buckets": [
            {"low": None, "high": -1, "count": 0},
            {"low": 0, "high": 0, "count": 0},
            {"low": 1, "high": 1, "count": 3},
        ],
        "unit": "usecs",
        "kind": "log2",
        "labels": {"disk": "vda"},
        "sum": None,
    }


def test_options_that_a_function_makes_have_no_fields():
    """Whatever makes them: the tool's `open` then takes what that takes."""
    assert not has_field(lambda: None, "buffer")


def test_events_in_asyncio(numbers):
    """`async for` gives them in order as they come; a loop's rest is the next one's; closing ends it."""
    found, ring = numbers

    async def first():
        async for number in found:
            if number == 2:
                return
        raise AssertionError("the loop has ended")

    async def rest():
        asyncio.get_running_loop().call_later(0.02, ring.push, 4, 5)
        seen = []
        async for number in found:
            seen.append(number)
            if number == 5:
                found.close()
        return seen

    ring.push(1, 2, 3)
    asyncio.run(first())
    assert asyncio.run(rest()) == [3, 4, 5]
