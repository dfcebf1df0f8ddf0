"""`tseries()`: values by intervals of time, by the clock that the setting `dummy_ts_map` names."""

from __future__ import annotations

import json
import re
import time

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.support.scripts import printed, printed_by

HOUR = time.strftime("%H", time.localtime(0))


def series(statements: str, *, as_json: bool = False) -> str:
    """What BEGIN makes of a series, @t being the time."""
    text = f"BEGIN {{ @t = (uint64)0; {statements} clear(@t); }}"
    return printed_by(Script(text, settings={"dummy_ts_map": "@t"}), json=as_json)


def values(statements: str) -> object:
    """The values of the intervals of @."""
    (found,) = json.loads(series(statements, as_json=True))["data"].values()
    return [each["value"] for each in found]


def test_a_series_is_drawn() -> None:
    """A line an interval, with a point in the scale of all of them; a missing one has a hyphen, zero a column."""
    text = series("@t = 21s; @ = tseries(-7, 1s, 9); @t = 22s; @ = tseries(6, 1s, 9); @t = 24s; @ = tseries(0, 1s, 9);")
    assert text == (
        "@:\n"
        "         -7                                                  6\n"
        "hh:mm:ss |___________________________________________________|\n"
        f"{HOUR}:00:21 *{'.':>28}{'|':>24} -7\n"
        f"{HOUR}:00:22 |{'.':>28}{'*':>24} 6\n"
        f"{HOUR}:00:23 |{'.':>28}{'|':>24} -\n"
        f"{HOUR}:00:24 |{'*':>28}{'|':>24} 0\n"
        "         v___________________________________________________v\n"
        "         -7                                                  6\n"
        "\n"
    )


@pytest.mark.parametrize(
    ("function", "found"),
    [("", [11, 5]), (', "sum"', [-2, 5]), (', "avg"', [0, 5]), (', "min"', [-17, 5]), (', "max"', [11, 5])],
)
def test_values_of_one_interval_are_put_together(function: str, found: list[int]) -> None:
    """The last one stays, or what the function makes of them; an average is rounded to zero."""
    call = f"@ = tseries($x, 10ms, 4{function});"
    text = "".join(f"$x = {number}; @t = {at}ms; {call}" for number, at in ((4, 80), (-17, 82), (11, 89), (5, 99)))
    assert values(text) == found


def test_only_the_last_intervals_are_kept() -> None:
    """A bucket is taken over by a later interval, of whichever key; what is older than the last ones is not shown."""
    text = "for ($i : 1..12) { @t = (uint64)$i * 1ms; @ = tseries($i, 1ms, 5); }"
    assert values(text) == [7, 8, 9, 10, 11]
    two = f"{text.replace('@ =', '@[1] =')} @t = 14ms; @[2] = tseries(77, 1ms, 5);"
    data = json.loads(series(two, as_json=True))["data"]["@"]
    assert [each["value"] for each in data["1"]] == [10, 11]
    assert data["2"] == [{"interval_start": "1970-01-01 00:00:00.014000000", "value": 77}]


def test_one_value_has_room_on_both_sides() -> None:
    """But for an unsigned 0; and it is shown to the nanosecond."""
    lines = series("@t = 10us; @ = tseries((uint64)0, 1us, 5);").splitlines()
    assert lines[1].split() == ["0", "1"]
    assert lines[2:4] == [f"hh:mm:ss.ns  {' ' * 6}|{'_' * 51}|", f"{HOUR}:00:00.000010000 *{' ' * 51}| 0"]


def test_clear_and_zero() -> None:
    """Nothing is printed of a series without entries; one of zeros has no data."""
    assert series("@t = 5s; @ = tseries(1, 1s, 5); clear(@);") == ""
    assert series("@t = 5s; @ = tseries(1, 1s, 5); zero(@);") == "@:\n<no data>\n"


def test_the_clock_is_tai() -> None:
    """The boot clock and what TAI is ahead of it, which user space tells, as it does not here."""
    text = printed(
        "BEGIN { } tracepoint:syscalls:sys_enter_openat { @ = tseries(args.dfd, 1us, 3); }",
        lambda kernel: [kernel.at(7000), kernel.tracepoint("syscalls:sys_enter_openat", dfd=5)],
    )
    assert f"{HOUR}:00:00.000007000 " in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@ = tseries(1, 0, 5);", "an interval of tseries() is at least 1ns long"),
        ("@ = tseries(1, 1s, 0);", "tseries() has 1 to 1000000 intervals, not 0"),
        ('@ = tseries(1, 1s, 5, "mean");', "tseries() takes one of avg, max, min, sum, not 'mean'"),
        ("@ = tseries(1, 1s, 5); $x = @;", "@, which tseries() fills, is no number: print() shows it"),
        ("@ = tseries(1, 1s, 5); @ = tseries(1, 1s, 6);", "@ holds tseries(…, 1000000000, 5, 0) elsewhere"),
        ("@[1] = tseries(1, 1s, 5); for ($x : @) { }", "@ is filled by tseries(), which a loop does not go over"),
        ("@ = tseries(1, 1s, 5); @++;", "@ is filled by tseries() elsewhere"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    """Each at its place."""
    with pytest.raises(CompileError, match=re.escape(message)):
        printed(f"BEGIN {{ {text} }}")
