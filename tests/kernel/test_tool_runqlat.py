"""runqlat: threads that wait for one processor, whose waits the kernel counts, too."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.programs import _scheduler, runqlat
from tests.support.command import pyebpf, running
from tests.support.scheduling import HOG, ROUNDS, of_thread, python, share_a_processor

SECONDS = 0.1
HOG_SECONDS = 0.08
#: Starts three threads, once it is told to.
THREADS = """
import os, sys, threading, time
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
input()
threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(3)]
for each in threads: each.start()
for each in threads: each.join()
"""


@pytest.fixture
def processor():
    return max(os.sched_getaffinity(0))


def test_two_that_share_a_processor(processor):
    """Each has as many waits as turns, and they add up to what the kernel counts in /proc/PID/schedstat."""
    with runqlat.open(by_thread=True) as snapshot:
        for _ in range(ROUNDS):
            numbers = share_a_processor(processor, SECONDS)
            found = list(snapshot())
            if all(of_thread(found, tid)[0] == stat.turns for tid, stat in numbers.items()):
                break
        assert snapshot.dropped == {}
    for tid, stat in numbers.items():
        total, low, high = of_thread(found, tid)
        assert total == stat.turns
        assert low <= stat.waited / 1000 <= high
    # One of them waits while the other runs.
    assert sum(stat.waited for stat in numbers.values()) > SECONDS * 0.9e9


def test_a_wait_of_a_known_time(processor):
    """A thread that wakes while another may not be interrupted has one wait in the bucket of that one's time."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    for _ in range(ROUNDS):
        with runqlat.open(by_process=True) as snapshot, python(HOG, processor, HOG_SECONDS, **pipes) as hog:
            waiter = int(hog.stdout.readline())
            snapshot()
            hog.communicate("\n")
            found = [each for each in snapshot() if each.labels["pid"] == waiter]
        counts = [bucket.count for each in found for bucket in each.buckets if bucket.low == 65536]
        if counts == [1]:
            break
    assert counts == [1]
    assert [each.unit for each in found] == ["usecs"]


def test_one_process_and_its_threads(processor):
    """-p leaves out all others; -P and -L have the same waits under the process and its threads."""
    with python(THREADS, processor, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()  # its start has waits, too, of which each tool would see as much as it is there for
        pid = str(process.pid)
        with (
            running("runqlat", "-p", pid, "-P", "--json") as of_process,
            running("runqlat", "-p", pid, "-L", "--csv") as of_threads,
            runqlat.open(pid=process.pid, milliseconds=True) as snapshot,
        ):
            process.communicate("\n")
            (whole,) = snapshot()
            for tool in (of_process, of_threads):
                tool.stop()
    (found,) = of_process.objects()
    assert list(found) == ["time", "pid", "comm", "unit", "buckets"]
    total = sum(bucket["count"] for bucket in found["buckets"])
    rows = of_threads.rows()
    assert list(rows[0]) == ["time", "tid", "comm", "unit", "low", "high", "count"]
    assert total == sum(int(row["count"]) for row in rows) == whole.total
    assert len({row["tid"] for row in rows}) == 4
    assert total > 4
    assert whole.unit == "msecs"


def test_namespaces_and_what_is_refused():
    """--pidnss has the number of /proc/self/ns/pid; two ways to group are one too many."""
    with runqlat.open(by_namespace=True) as snapshot:
        subprocess.run(["true"], check=True)
        assert Path("/proc/self/ns/pid").stat().st_ino in {each.labels["pidns"] for each in snapshot()}
    with pytest.raises(InvalidValue, match="one of -P, -L"), runqlat.open(by_process=True, by_thread=True):
        pass
    done = pyebpf("runqlat", "-P", "-L")
    assert (done.returncode, done.stdout) == (2, "")
    assert "give one of -P, -L and --pidnss" in done.stderr


def test_waits_that_find_no_room(monkeypatch, processor):
    """Are counted as dropped, in words; those of the threads that are followed are counted."""
    monkeypatch.setattr(_scheduler, "THREADS", 1)
    with runqlat.open() as snapshot:
        share_a_processor(processor, SECONDS)
        found = list(snapshot())
        (reason,) = snapshot.dropped
        assert snapshot.dropped[reason] > 0
    assert reason.startswith("waits of further threads")
    assert sum(each.total for each in found) > 0
