"""Times of events as dates: the zone, nanoseconds, a second's change, a date that somebody sets."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from pyebpf.output.timestamps import Timestamps

#: 2026-11-24 08:30:00 UTC; the fake monotonic clock has run for 100 seconds then.
DATE, SECOND = 1_795_509_000, 10**9
START = 100 * SECOND


class Clocks:
    """Both clocks of the kernel; only a test moves them."""

    def __init__(self) -> None:
        self.monotonic = START
        self.date = DATE * SECOND


@pytest.fixture
def clocks(monkeypatch):
    made = Clocks()
    monkeypatch.setattr(time, "monotonic_ns", lambda: made.monotonic)
    monkeypatch.setattr(time, "time_ns", lambda: made.date)
    return made


@pytest.fixture
def zone(monkeypatch):
    """Set this process's time zone."""

    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "clock", "offset"),
    [
        ("UTC0", "08:30:00", "+00:00"),
        ("AAA-1", "09:30:00", "+01:00"),
        ("BBB+5", "03:30:00", "-05:00"),
        ("CCC-5:45", "14:15:00", "+05:45"),
        ("DDD+3:30", "05:00:00", "-03:30"),
    ],
)
def test_the_zone(clocks, zone, name, clock, offset):
    """That of this process, with its minutes, in hours and minutes from UTC; the text has the local time of day."""
    zone(name)
    stamps = Timestamps()
    assert stamps.now() == clocks.monotonic
    assert stamps.iso(stamps.now()) == f"2026-11-24T{clock}.000000000{offset}"
    assert stamps.clock(stamps.now()) == clock
    assert datetime.fromisoformat(stamps.iso(stamps.now())).timestamp() == DATE


def test_summer_time(clocks, zone):
    """Each second has the offset that holds in it."""
    zone("CET-1CEST,M3.5.0,M10.5.0/3")
    clocks.date = 1_792_888_199 * SECOND + 1  # 2026-10-25 02:29:59 CEST; half an hour later it is 02:00 CET
    stamps = Timestamps()
    found = [stamps.iso(START + later * SECOND) for later in (0, 1800, 1801)]
    assert found == [
        "2026-10-25T02:29:59.000000001+02:00",
        "2026-10-25T02:59:59.000000001+02:00",
        "2026-10-25T02:00:00.000000001+01:00",
    ]


@pytest.mark.usefixtures("clocks")
def test_nanoseconds(zone):
    """All nine digits; the second changes where it does; an event of before is one of before."""
    zone("UTC0")
    stamps = Timestamps()
    found = {later: stamps.iso(START + later) for later in (0, 7, 123_456_789, SECOND - 1, SECOND, -1)}
    assert {later: text.removeprefix("2026-11-24T") for later, text in found.items()} == {
        0: "08:30:00.000000000+00:00",
        7: "08:30:00.000000007+00:00",
        123_456_789: "08:30:00.123456789+00:00",
        SECOND - 1: "08:30:00.999999999+00:00",
        SECOND: "08:30:01.000000000+00:00",
        -1: "08:29:59.999999999+00:00",
    }


def test_a_date_that_is_set(clocks, zone):
    """The difference of the clocks is read once a second, so that later events have the new date."""
    zone("UTC0")
    stamps = Timestamps()
    assert stamps.clock(clocks.monotonic) == "08:30:00"
    clocks.date += 3600 * SECOND
    clocks.monotonic += SECOND - 1
    assert stamps.clock(START) == "08:30:00"
    clocks.monotonic += 1
    clocks.date += SECOND
    assert stamps.clock(clocks.monotonic) == "09:30:01"


def test_a_time_of_now():
    """With the real clocks: between the dates before and after."""
    stamps = Timestamps()
    before = time.time()
    found = datetime.fromisoformat(stamps.iso(time.monotonic_ns())).timestamp()
    assert before - 0.01 <= found <= time.time() + 0.01
