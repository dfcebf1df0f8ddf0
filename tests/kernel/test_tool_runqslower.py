"""runqslower: a thread that is kept from its processor for a known time."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pyebpf.programs import runqslower
from tests.support.command import pyebpf, running
from tests.support.scheduling import HOG, ROUNDS, python

SECONDS = 0.08
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


@pytest.fixture
def processor():
    return max(os.sched_getaffinity(0))


def test_a_line_for_a_long_wait(processor):
    """A line for the thread that had to wait, with the time and the thread that ran; none above what it waited.

    It may have to wait again before it ends, where something else keeps the machine busy.
    """
    waited = {}
    with (
        running("runqslower", "-P", "60000") as text,
        running("runqslower", "--json", "60000") as objects,
        runqslower.open(min_us=10_000_000) as slower,
    ):
        for _ in range(ROUNDS):
            with python(HOG, processor, SECONDS, **PIPES) as hog:
                waiter = hog.stdout.readline().strip()
                began = time.monotonic()
                hog.communicate("\n")
                waited[waiter] = time.monotonic() - began
        assert [wait for wait in slower.poll(0) if str(wait.tid) in waited] == []
        for tool in (text, objects):
            tool.stop()
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "COMM", "TID", "LAT(us)", "PREV", "COMM", "PREV", "TID"]
    told = {str(each["tid"]): each for each in reversed(objects.objects()) if str(each["tid"]) in waited}
    line, *_ = [line.split() for line in lines if line.split()[2] in told]
    found, elapsed = told[line[2]], waited[line[2]]
    assert SECONDS * 1e6 * 0.8 < int(line[3]) < elapsed * 1e6
    assert list(found) == [
        "time", "comm", "tid", "pid", "latency_ns", "previous_comm", "previous_tid",
    ]  # fmt: skip
    assert found["pid"] == found["tid"]
    assert SECONDS * 1e9 * 0.9 < found["latency_ns"] < elapsed * 1e9
    assert [found["previous_comm"], str(found["previous_tid"])] == line[4:]


def test_one_process_or_thread(processor):
    """-p, -t and --comm leave out all others; what was waiting before, or is no number, is no line."""
    with python(HOG, processor, SECONDS, **PIPES) as hog:
        waiter = int(hog.stdout.readline())
        with (
            runqslower.open(min_us=60_000, pid=waiter) as of_process,
            runqslower.open(min_us=60_000, tid=waiter) as of_thread,
            runqslower.open(min_us=60_000, pid=hog.pid) as of_hog,
            runqslower.open(min_us=60_000, comm=Path(f"/proc/{waiter}/comm").read_text().strip()) as by_name,
            runqslower.open(min_us=60_000, comm="of-no-thread") as by_other,
        ):
            hog.communicate("\n")
            assert {wait.tid for wait in of_process.poll(0)} == {waiter}
            assert {wait.tid for wait in of_thread.poll(0)} == {waiter}
            assert of_hog.poll(0) == by_other.poll(0) == []
            assert waiter in {wait.tid for wait in by_name.poll(0)}
    done = pyebpf("runqslower", "soon")
    assert (done.returncode, done.stdout) == (2, "")
