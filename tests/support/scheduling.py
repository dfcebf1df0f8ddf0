"""Processes that compete for a processor, and what the kernel says of each in /proc/PID/schedstat."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyebpf.tool import Histogram

#: Once it is told to, it uses its processor for some seconds of its own time. Until then it has started, which takes an
#: emulated machine longer than that.
BUSY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
print("ready", flush=True)
input()
until = time.process_time() + float(sys.argv[2])
while time.process_time() < until: pass
"""
#: Prints a child's number. Once it is told to, it wakes the child and keeps it from their processor for some seconds.
HOG = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
(ready, tell), (wait, wake) = os.pipe(), os.pipe()
child = os.fork()
if not child:
    os.write(tell, b"!")
    os.read(wait, 1)
    os._exit(0)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
os.read(ready, 1)
print(child, flush=True)
input()
until = time.monotonic() + float(sys.argv[2])
os.write(wake, b"!")
while time.monotonic() < until: pass
os.waitpid(child, 0)
"""


#: How often to measure until all is seen: the machine of development has threads in which the kernel runs no programs;
#: of a switch from such a thread no tool can know.
ROUNDS = 6


class Schedstat(NamedTuple):
    """A thread's nanoseconds on a processor, those of waiting for one, and how often it got one."""

    ran: int
    waited: int
    turns: int


def schedstat(pid: int) -> Schedstat:
    """What the kernel counted of the first thread of a process."""
    return Schedstat(*map(int, Path(f"/proc/{pid}/schedstat").read_text().split()))


def python(script: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """A process that runs a script."""
    command = [sys.executable, "-S", "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, text=True, **options)


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[Schedstat]:
    """Wait until a process has ended, and give its last numbers; it is reaped when the block ends."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        yield schedstat(process.pid)
    finally:
        assert process.wait(PATIENCE) == 0


def share_a_processor(processor: int, seconds: float, count: int = 2) -> dict[int, Schedstat]:
    """The last numbers of two or more processes, by their ids, that are busy for so long each on one processor."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    numbers = {}
    with ExitStack() as stack:
        processes = [stack.enter_context(python(BUSY, processor, seconds, **pipes)) for _ in range(count)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            with ended(process) as stat:
                numbers[process.pid] = stat
    return numbers


def bounds(histogram: Histogram) -> tuple[int, int]:
    """The least and the largest sum that the counts of a histogram allow, whose values were rounded down."""
    filled = [bucket for bucket in histogram.buckets if bucket.count]
    low = sum((bucket.low or 0) * bucket.count for bucket in filled)
    return low, sum((bucket.high + 1) * bucket.count for bucket in filled if bucket.high is not None)


def of_thread(histograms: Iterable[Histogram], tid: int) -> tuple[int, int, int]:
    """How many values a thread's histograms have, and `bounds` of all: before exec(2) it has its parent's name."""
    own = [each for each in histograms if each.labels["tid"] == tid]
    ends = [bounds(each) for each in own]
    return sum(each.total for each in own), sum(low for low, _ in ends), sum(high for _, high in ends)
