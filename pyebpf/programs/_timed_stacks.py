"""Samples of stacks with their times: from a ring buffer, counted by slots of time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyebpf import Struct, u64
from pyebpf.programs._thread_stacks import Looks, PythonThreadStacks, ThreadStacks, ThreadWalk, stacks
from pyebpf.tool import SLOT, Stack, events, monotonic_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf import BPF
    from pyebpf.tool import Stop

#: Slots of all stacks that are kept at most; what comes later is counted without its time.
MAX_SLOTS = 2_000_000


class TimedSample(Struct):
    """A sample: when, and of whom."""

    time: u64
    thread: ThreadStacks


class TimedPythonSample(Struct):
    """One of a thread whose process may run Python."""

    time: u64
    thread: PythonThreadStacks


def sample_of(walk: ThreadWalk) -> Any:
    """The class of the record of a sample."""
    return TimedPythonSample if walk.record is PythonThreadStacks else TimedSample


def timed(bpf: BPF, options: Any, stop: Stop) -> Iterator[Stack]:
    """The stacks of the ring buffer `samples` until the stop, each with its times, the most frequent first."""
    key: tuple[object, ...]
    threads: dict[tuple[object, ...], ThreadStacks] = {}
    counts: dict[tuple[object, ...], int] = {}
    times: dict[tuple[object, ...], dict[int, int]] = {}
    room = MAX_SLOTS
    since = time.time_ns() - time.monotonic_ns()
    looks = Looks(bpf)
    for sample in events(bpf["samples"], stop):
        looks.look()
        thread = sample.thread
        key = thread.pid, thread.user, thread.kernel, thread.comm, getattr(thread, "python", 0)
        if key not in threads:
            threads[key], counts[key], times[key] = thread, 0, {}
        counts[key] += 1
        slots, slot = times[key], (monotonic_time(sample.time) + since) // SLOT * SLOT
        if slot in slots:
            slots[slot] += 1
        elif room:
            slots[slot], room = 1, room - 1
    for key, count in sorted(counts.items(), key=lambda item: -item[1]):
        yield Stack(count, **stacks(bpf, options, threads[key]), times=tuple(sorted(times[key].items())))
    bpf.stacks.release()
