"""`pyebpf live` of made-up tools: address, options, end."""

from __future__ import annotations

import signal
import socket
import urllib.error
import urllib.request

import pytest

import pyebpf
from pyebpf.cli.live import run_live, run_tool
from pyebpf.cli.report import UsageError
from tests.live.made_up import HOSTILE, TOOLS
from tests.live.test_server import messages
from tests.support.waiting import wait_until


def get(address):
    with urllib.request.urlopen(address, timeout=20) as answer:
        return answer.read()


def watched(address):
    """The messages of a run until it ends, by kind."""
    found = {}
    with urllib.request.urlopen(f"{address}events", timeout=30) as answer:
        for kind, data in messages(answer):
            found.setdefault(kind, []).append(data)
    return found


def test_ctrl_c_tells_the_page_and_leaves_nothing(live):
    """Status 0; the port is closed."""
    process, address = live("events")
    with urllib.request.urlopen(f"{address}events", timeout=30) as answer:
        found = messages(answer)
        while next(found)[0] != "events":
            pass
        process.send_signal(signal.SIGINT)
        assert list(found)[-1] == ("end", {"reason": "signal", "message": ""})
    assert process.wait(timeout=20) == 0
    assert process.stderr.read().splitlines()[-1].endswith("Hit Ctrl-C to end.")
    with pytest.raises(urllib.error.URLError):
        get(address)


def test_events(live):
    """With the state, rows, and a picture, since they have a duration."""
    _, address = live("events", "-d", "2", "--every", "0.01")
    found = watched(address)
    assert found["layout"][0]["events"] == ["time", "number", "comm", "latency_ns"]
    numbers = [row[1] for data in found["events"] for row in data["rows"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 10
    assert found["end"] == [{"reason": "time", "message": ""}]
    assert found["picture"][-1]["version"] > 1


@pytest.mark.parametrize(("tool", "count"), [("rows", 2), ("histograms", 3)])
def test_intervals(live, tool, count):
    """As many as were asked for."""
    _, address = live(tool, "0.4", str(count))
    found = watched(address)
    assert len(found["interval"]) == count
    row = found["interval"][0]
    assert (row["rows"][0][1] if tool == "rows" else row["objects"][0]["disk"]) == HOSTILE.replace("\udcff", "\\xff")
    assert found["end"] == [{"reason": "count", "message": ""}]


def test_stacks(live):
    """A flame graph, redrawn each interval."""
    _, address = live("stacks", "30")
    assert b"onerror=alert(1)&gt;" in get_until(f"{address}picture.svg", b"onerror")
    assert get(f"{address}picture.svg?last=2").startswith(b"<?xml")


def get_until(address, text):
    return wait_until(lambda: found if text in (found := get(address)) else None)


def test_an_error_ends_the_page_too(live):
    """It says what went wrong, escaped."""
    process, address = live("events", "--fail-after", "0.8")
    end = watched(address)["end"][0]
    assert end["reason"] == "error"
    assert "ZeroDivisionError" in end["message"]
    assert "\x1b" not in end["message"]
    assert process.wait(timeout=20) == 1


def test_a_port_in_use_is_one_line(live):
    """Before anything is attached."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process, address = live("events", "--port", str(port))
        assert (process.wait(timeout=20), address) == (1, "")
        assert process.stderr.read() == f"pyebpf live: --port: {port} is in use; leave it out for any that is free\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "0"), "'0' is no port"),
        (("--port",), "argument --port: give a number"),
        (("--port=x",), "'x' is not a whole number"),
        (("--json",), "leave out options for what is printed"),
        (("--heatmap", "x.svg"), "leave out options for what is printed"),
        (("--dump",), "leave out options for what is printed"),
    ],
)
def test_wrong_usage_is_refused(arguments, words):
    """Before anything is attached."""
    with pytest.raises(UsageError, match=words):
        run_tool(TOOLS["events"], list(arguments))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a tool"),
        (("--prot", "8000", "opensnoop"), "unknown option --prot"),
        (("script.bt",), "have no page"),
        (("no-such-tool",), "there is no tool 'no-such-tool'"),
        (("--port", "70000", "opensnoop"), "'70000' is no port"),
    ],
)
def test_wrong_tools_are_refused(arguments, words):
    """By the command itself."""
    with pytest.raises(UsageError, match=words):
        run_live(list(arguments))


def test_it_records_too(live, tmp_path):
    """As without a page."""
    _, address = live("rows", "--record", str(tmp_path / "rec"), "0.2", "2")
    assert len(watched(address)["interval"]) == 2
    assert len(list(pyebpf.open_recording(str(tmp_path / "rec")).intervals())) == 2
