"""cpudist: time on the processor and off it, against a thread's own clock and what the kernel counts."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from pyebpf.programs import cpudist
from tests.support.command import running
from tests.support.scheduling import ROUNDS, bounds, of_thread, python, share_a_processor

SECONDS, SLEEP, SLEEPS = 0.1, 0.05, 5
#: The last stretch of a process ends after its parent knows of its end.
LAST = 0.1
#: Sleeps some times, once it is told to, and then writes how long it slept, in nanoseconds.
SLEEPER = """
import sys, time
input()
total = 0
for _ in range(int(sys.argv[1])):
    began = time.monotonic_ns()
    time.sleep(float(sys.argv[2]))
    total += time.monotonic_ns() - began
print(total)
"""


@pytest.fixture
def processor():
    return max(os.sched_getaffinity(0))


def test_time_on_the_processor(processor):
    """A thread has as many stretches as turns, and they add up to its time in /proc/PID/schedstat."""
    with cpudist.open(by_thread=True) as snapshot:
        for _ in range(ROUNDS):
            numbers = share_a_processor(processor, SECONDS)
            time.sleep(LAST)
            found = list(snapshot())
            if all(of_thread(found, tid)[0] == stat.turns for tid, stat in numbers.items()):
                break
        assert snapshot.dropped == {}
    for tid, stat in numbers.items():
        total, low, high = of_thread(found, tid)
        assert total == stat.turns
        # The kernel's clock of run time leaves interrupts out.
        assert 0.9 * low <= stat.ran / 1000 <= high
    assert {each.unit for each in found} == {"usecs"}


def test_time_off_the_processor():
    """-O has each sleep of a process in its bucket; the idle tasks, whose pid is 0, are left out."""
    with (
        python(SLEEPER, SLEEPS, SLEEP, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sleeper,
        running("cpudist", "-O", "-p", str(sleeper.pid), "-P", "--json") as of_process,
        cpudist.open(off_cpu=True, pid=sleeper.pid, milliseconds=True) as snapshot,
        cpudist.open(by_process=True) as without_idle,
    ):
        slept = int(sleeper.communicate("\n")[0])
        (found,) = snapshot()
        assert 0 not in {each.labels["pid"] for each in without_idle()}
        of_process.stop()
    assert sum(bucket.count for bucket in found.buckets if bucket.low and bucket.low >= 32) >= SLEEPS
    assert bounds(found)[1] >= slept / 1e6
    (histogram,) = of_process.objects()
    assert histogram["pid"] == sleeper.pid
    assert sum(bucket["count"] for bucket in histogram["buckets"] if bucket["low"] >= 32768) >= SLEEPS
