"""hardirqs and softirqs: as many as /proc/interrupts and /proc/softirqs count, and less time than there was."""

from __future__ import annotations

import os
import re
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.programs import hardirqs, softirqs
from tests.support.command import running
from tests.support.needs import unless

DATAGRAMS = 101
MOST = 50


def handled():
    """How many interrupts each device's handler had, by its name."""
    found = Counter()
    for line in Path("/proc/interrupts").read_text().splitlines()[1:]:
        number, *rest = line.split()
        if number.rstrip(":").isdecimal():
            found[rest[-1]] += sum(int(each) for each in rest[: os.cpu_count()])
    return found


def soft():
    """How many soft interrupts of each kind there were."""
    lines = [line.split() for line in Path("/proc/softirqs").read_text().splitlines()[1:]]
    return Counter({name.rstrip(":").lower(): sum(map(int, counts)) for name, *counts in lines})


def send_datagrams():
    """Over loopback: the kernel receives each in a soft interrupt of its own."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to,
    ):
        to.bind(("127.0.0.1", 0))
        for _ in range(DATAGRAMS):
            one.sendto(b"x", to.getsockname())
            to.recv(1)


def test_soft_interrupts():
    """Each datagram over loopback is one of net_rx, none is counted that /proc/softirqs has not."""
    before = soft()
    with softirqs.open(count=True) as counts, softirqs.open() as times, softirqs.open(distribution=True) as histograms:
        began = time.monotonic_ns()
        send_datagrams()
        counted = {row.softirq: row.count for row in counts()}
        spent = {row.softirq: row.count for row in times()}
        elapsed = time.monotonic_ns() - began
        found = {each.labels["softirq"]: each for each in histograms()}
        assert counts.dropped == times.dropped == histograms.dropped == {}
    changes = soft() - before
    assert counted["net_rx"] >= DATAGRAMS
    assert all(count <= changes[name] for name, count in counted.items())
    assert counted.keys() <= changes.keys() & set(softirqs.NAMES)
    assert 0 < spent["net_rx"] < elapsed * os.cpu_count()
    assert found["net_rx"].total >= DATAGRAMS
    assert found["net_rx"].unit == "usecs"


def test_hardware_interrupts(tmp_path):
    """Handlers have the names of /proc/interrupts, none more interrupts than that has."""
    before = handled()
    with hardirqs.open(count=True) as counts, hardirqs.open() as times:
        began = time.monotonic_ns()
        inner = handled()
        # Whatever the disk and the console are: one of these asks for it.
        for number in range(MOST):
            with (tmp_path / str(number)).open("wb") as file:
                file.write(b"x" * 4096)
                os.fsync(file.fileno())
            time.sleep(0.01)
        inner = handled() - inner
        counted = {row.hardirq: row.count for row in counts()}
        spent = {row.hardirq: row.count for row in times()}
        elapsed = time.monotonic_ns() - began
    changes = handled() - before
    unless(sum(inner.values()) >= MOST, "device:interrupts")
    assert all(count <= changes[name] for name, count in counted.items() if name in changes)
    most, number = inner.most_common(1)[0]
    assert counted[most] >= number / 2
    assert 0 < spent[most] < elapsed * os.cpu_count()


def test_forms():
    """Headings are bcc's; -N and -d change the unit, and counts have none."""
    with (
        running("softirqs") as text,
        running("softirqs", "-N", "--csv") as rows,
        running("softirqs", "-d", "-N", "--json") as objects,
        running("softirqs", "-C") as counts,
        running("hardirqs", "-C") as hard,
        running("softirqs", "-c", "0", "-C", "--json") as of_one,
    ):
        send_datagrams()
        for tool in (text, rows, objects, counts, hard, of_one):
            tool.stop()
    assert text.out.split()[:2] == ["SOFTIRQ", "TOTAL_usecs"]
    assert re.search(r"^net_rx +\d+$", text.out, re.MULTILINE)
    assert counts.out.split()[:2] == ["SOFTIRQ", "TOTAL_count"]
    assert hard.out.split()[:2] == ["HARDIRQ", "TOTAL_count"]
    assert list(rows.rows()[0]) == ["time", "softirq", "total_ns"]
    assert {each["unit"] for each in objects.objects()} == {"nsecs"}
    assert all(list(each) == ["time", "softirq", "count"] for each in of_one.objects())


@pytest.mark.parametrize("tool", [hardirqs, softirqs])
def test_counts_have_no_time(tool):
    """-C with -d or -N is refused."""
    for other in ("distribution", "nanoseconds"):
        with pytest.raises(InvalidValue, match="give -C, or -d and -N"):
            tool.Options(count=True, **{other: True})
