"""`InFlight`: times from one event to another, what finds no room; and the example of the page on tools."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pyebpf import BPF, Struct, pid, u64
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.tasks import Lifespan, Lifespans
from pyebpf.tool import dataclass
from tests.support.command import running
from tests.support.python import ROOT

ME = os.getpid()
WAIT = 0.01
#: Offsets and descriptors that nobody else has.
FIRST = 1_000_000


class Ended(Struct):
    """A thing that ended."""

    thing: u64
    elapsed: u64


@pytest.fixture
def flight(request):
    """Things that start by lseek(2), end by close(2) and are forgotten by dup2(2), named by their numbers."""
    bpf = BPF()
    things = InFlight(bpf, **getattr(request, "param", {}))
    ended = bpf.ringbuf(Ended)

    @bpf.tracepoint("syscalls:sys_enter_lseek")
    def on_start(offset: u64) -> None:
        if pid() == ME and offset >= FIRST:
            things.start(offset)

    @bpf.tracepoint("syscalls:sys_enter_close")
    def on_end(fd: int) -> None:
        if pid() == ME and fd >= FIRST:
            elapsed = things.end(u64(fd))
            if elapsed is not None:
                ended.emit(Ended(thing=u64(fd), elapsed=elapsed))

    @bpf.tracepoint("syscalls:sys_enter_dup2", "syscalls:sys_enter_dup3", optional=True)
    def on_cancel(oldfd: int) -> None:
        if pid() == ME and oldfd >= FIRST:
            things.cancel(u64(oldfd))

    with bpf:
        yield bpf, things, ended


class Closed(Lifespan):
    """A thing that was begun, and closed."""

    thing: u64


def test_lifespans():
    """What ended and was seen to begin is emitted, with its times and whose it is; the rest is still under way."""
    bpf = BPF()
    things = Lifespans(bpf, Closed, name="things", ended="closed")

    @bpf.tracepoint("syscalls:sys_enter_lseek")
    def on_start(offset: u64) -> None:
        if pid() == ME and offset >= FIRST:
            things.under_way[offset] = Closed(offset)

    @bpf.tracepoint("syscalls:sys_enter_close")
    def on_end(fd: u64) -> None:
        if pid() == ME and fd >= FIRST:
            things.end(fd)

    with bpf:
        for number in (1, 2):
            start(FIRST + number)
        time.sleep(WAIT)
        for number in (2, 3):
            end(FIRST + number)
        (closed,) = bpf["closed"].poll(1)
        assert [each.thing for each in bpf["things"].values()] == [FIRST + 1]
    assert (closed.thing, closed.pid) == (FIRST + 2, ME)
    assert closed.comm == Path("/proc/self/comm").read_text().strip()
    assert closed.lifespan >= WAIT * 1e9
    assert closed.ended <= time.monotonic_ns()


@dataclass(frozen=True)
class Unit:
    """The options of a histogram of times."""

    milliseconds: bool = False
    nanoseconds: bool = False


def test_histograms_of_times():
    """In the unit of the options, milliseconds before nanoseconds; what has no start is not counted."""
    bpf = BPF()
    times = {
        "usecs": LatencyHistogram(bpf, None),
        "msecs": LatencyHistogram(bpf, Unit(milliseconds=True, nanoseconds=True), name="msecs"),
        "nsecs": LatencyHistogram(bpf, Unit(nanoseconds=True), name="nsecs"),
    }
    own = LatencyHistogram(bpf, Unit(), name="own", unit="nsecs")
    keyed = LatencyHistogram(bpf, Unit(), name="keyed", key=u64, label="thing")
    things = InFlight(bpf)

    @bpf.tracepoint("syscalls:sys_enter_close")
    def on_close(fd: int) -> None:
        if pid() == ME and fd >= FIRST:
            for histogram in times.values():
                histogram.add(fd * 1000)
            own.add(things.end(u64(fd)))
            keyed.add(fd * 1000, u64(fd))
            keyed.add(things.end(u64(fd)), u64(fd))

    with bpf:
        with suppress(OSError):
            os.close(FIRST)
        found = {unit: each.histogram.interval() for unit, each in times.items()}
        (thing,) = keyed.histogram.interval().values()
        none = own.histogram.interval()
    assert {unit: each.unit for unit, each in found.items()} == {unit: unit for unit in times}
    for unit, value in {"usecs": 1_000_000, "msecs": 1_000, "nsecs": 1_000_000_000}.items():
        (bucket,) = found[unit].rows()
        assert bucket.low <= value <= bucket.high
    assert (thing.labels, thing.unit, thing.total) == ({"thing": FIRST}, "usecs", 1)
    assert (none.unit, none.total) == ("nsecs", 0)


def start(thing: int) -> None:
    """A thing starts."""
    with open(__file__, "rb") as file:  # noqa: PTH123 - its descriptor is what is wanted
        os.lseek(file.fileno(), thing, os.SEEK_SET)


def end(thing: int) -> None:
    """A thing ends."""
    with suppress(OSError):
        os.close(thing)


def test_the_time_between_start_and_end(flight):
    """At least what was waited, at most what this process saw; each thing once, by the last of its starts."""
    bpf, things, ended = flight
    before = time.monotonic_ns()
    start(FIRST)
    start(FIRST + 1)
    time.sleep(WAIT)
    start(FIRST + 1)
    assert len(things) == 2
    end(FIRST)
    end(FIRST + 1)
    end(FIRST + 1)
    end(FIRST + 2)
    took = time.monotonic_ns() - before
    first, second = ended.poll(0)
    assert (first.thing, second.thing) == (FIRST, FIRST + 1)
    assert WAIT * 1e9 <= first.elapsed <= took
    assert second.elapsed < first.elapsed
    assert len(things) == 0
    assert not bpf.dropped


def test_what_is_cancelled_has_no_end(flight):
    """It is forgotten."""
    _, things, ended = flight
    start(FIRST)
    start(FIRST + 1)
    with suppress(OSError):
        os.dup2(FIRST, 100)
    end(FIRST)
    end(FIRST + 1)
    assert [each.thing for each in ended.poll(0)] == [FIRST + 1]
    assert len(things) == 0


@pytest.mark.parametrize("flight", [{"size": 5, "name": "things"}], indirect=True)
def test_what_finds_no_room_is_counted(flight):
    """By the name that was given."""
    bpf, things, ended = flight
    for number in range(7):
        start(FIRST + number)
    assert len(things) == 5
    assert bpf.dropped == {"things: map full": 2}
    for number in range(7):
        end(FIRST + number)
    assert [each.thing - FIRST for each in ended.poll(0)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("flight", [{"size": 512, "oldest_first": True}], indirect=True)
def test_the_oldest_give_way(flight):
    """Nothing is dropped; the newest are there."""
    bpf, things, ended = flight
    for number in range(2000):
        start(FIRST + number)
    assert len(things) <= 512
    end(FIRST + 1999)
    assert [each.thing - FIRST for each in ended.poll(0)] == [1999]
    assert not bpf.dropped


def test_the_tool_of_the_page():
    """`pyebpf run docs/examples/connect_latency.py`: every connect(2) of this process, with all fields."""
    with running("run", ROOT / "docs/examples/connect_latency.py", "--json", "-p", str(ME)) as tool:
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.create_server((address, 0), family=family) as server, socket.socket(family) as client:
                client.connect(server.getsockname()[:2])
                port = server.getsockname()[1]
            with socket.socket(family) as client, pytest.raises(OSError, match="refused"):
                client.connect((address, port))
        tool.stop()
    found = [json.loads(line) for line in tool.out.splitlines()]
    assert [(each["error"], each["address"].rpartition(":")[0]) for each in found] == [
        (None, "127.0.0.1"),
        ("ECONNREFUSED", "127.0.0.1"),
        (None, "[::1]"),
        ("ECONNREFUSED", "[::1]"),
    ]
    assert all(each["pid"] == ME and each["latency_ns"] > 0 for each in found)
