"""ieee80211scan: scans of a radio made of software, to their end, broken off, refused; a channel that is heard."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from pyebpf.output.columns import Row
from pyebpf.programs import ieee80211scan
from pyebpf.tool import Stop
from tests.support import wifi
from tests.support.command import pyebpf, running
from tests.support.needs import needs

SCANS, ABORTED = 7, 3
SILENT, HEARD = 2437, 2412  # MHz
CHANNELS = tuple(range(2412, 2467, 5))


@pytest.fixture
def stack():
    """The WiFi stack, whose two radios are stations again afterwards, and down."""
    with wifi.Wifi() as made:
        needs("setting:/sys/kernel/btf/cfg80211")  # modules have BTF since Linux 5.11
        yield made
        for interface in ("wlan0", "wlan1"):
            made.become(interface, wifi.STATION)
            wifi.set_link(interface, "down")


@pytest.mark.machine(devices=("wifi",))
def test_each_scan_starts_and_ends_once(stack):
    """7 scans of one channel, 3 of all that are broken off, and one that the driver refuses."""
    options = ieee80211scan.NoOptions()
    stack.become("wlan0", wifi.STATION)
    with running("ieee80211scan") as text, ieee80211scan.build(options) as bpf, Stop() as stop:
        for _ in range(SCANS):
            stack.scan("wlan0", (SILENT,))
        for _ in range(ABORTED):
            stack.scan("wlan0", CHANNELS, abort=True)
        stack.become("wlan0", wifi.MONITOR)
        with pytest.raises(OSError, match=os.strerror(errno.EOPNOTSUPP)):
            stack.start_scan("wlan0", (SILENT,))
        text.stop()
        stop.set()
        found = list(ieee80211scan.steps(bpf, options, stop))
    expected = [*(["started", "completed"] * SCANS), *(["started", "aborted"] * ABORTED), "started", "refused"]
    assert [each.event for each in found] == expected
    assert {each.device for each in found} == {"wlan0"}
    starts = [each for each in found if each.event == "started"]
    assert {(each.pid, each.comm) for each in starts} == {(os.getpid(), Path("/proc/self/comm").read_text()[:-1])}
    assert [each.channels for each in starts] == [1] * SCANS + [len(CHANNELS)] * ABORTED + [1]
    # A passive scan listens on each channel for a ninth of a second (IEEE80211_PASSIVE_CHANNEL_TIME).
    assert all(100 < each.ns / 1e6 < 10_000 for each in found if each.event == "completed")
    row = Row(ieee80211scan.TOOL.columns_for(options)).object(found[-1])
    del row["duration_ns"]
    assert {name: value for name, value in row.items() if value is not None} == {
        "device": "wlan0", "event": "refused", "error": "EOPNOTSUPP",
    }  # fmt: skip
    lines = text.out.splitlines()
    assert len(lines) == len(expected)
    assert all(len(line) <= 80 for line in lines)
    for line, event in zip(lines, expected, strict=True):
        assert re.fullmatch(r"\d\d:\d\d:\d\d wlan0: " + SENTENCES[event], line)


SENTENCES = {
    "started": rf"scan started \(on-CPU PID {os.getpid()}, .+\)",
    "completed": r"scan completed: \d{3,4} ms",
    "aborted": r"scan aborted: \d+ ms",
    "refused": "scan refused: EOPNOTSUPP",
}


@pytest.mark.machine(devices=("wifi",))
def test_a_channel_that_is_heard_has_a_line(stack):
    """The other radio sends beacons on one of two channels: one line for it in each of five scans."""
    stack.become("wlan1", wifi.ADHOC)
    stack.join_ibss("wlan1", b"pyebpf", HEARD, beacon_interval=20)
    stack.become("wlan0", wifi.STATION)
    options = ieee80211scan.NoOptions()
    with ieee80211scan.build(options) as bpf, Stop() as stop:
        for _ in range(5):
            stack.scan("wlan0", (HEARD, SILENT))
        stop.set()
        found = list(ieee80211scan.steps(bpf, options, stop))
    assert [each.event for each in found] == ["started", "channel", "completed"] * 5
    heard = [each for each in found if each.event == "channel"]
    assert {(each.device, each.band, each.frequency, each.beacon_found) for each in heard} == {
        ("wlan0", "2GHZ", HEARD, 0)
    }
    assert ieee80211scan.sentence(heard[0]) == f"wlan0: scanning channel 2GHZ freq {HEARD}: beacon_found 0"


def test_without_the_wifi_stack():
    """Where it is not loaded one line says so, and how to load it."""
    if Path("/sys/module/cfg80211").exists():  # in a machine with a radio the other tests run
        return
    done = pyebpf("ieee80211scan")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "pyebpf ieee80211scan: the tracepoints of WiFi are missing. Either cfg80211 is not loaded: load the card's "
        "driver with modprobe. Or the module has no BTF, which modules have since Linux 5.11\n"
    )
