"""Time that threads are blocked, by the stacks with which they slept and those of the threads that woke them.

Microseconds from a thread's sleep until it runs again are added up by both threads' names, processes and stacks, and
printed at the end: as text, folded lines, a flame graph or a file for another profiler. Sleeps that began before
tracing did are left out.

Overhead: two stacks for each sleep and two for each wakeup of the threads that are traced, 1 us each time; 0.1 us for
other context switches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, RawTracepointContext, Struct, now, u64
from pyebpf.programs._off_cpu import OffCpu, OffCpuOptions, totals
from pyebpf.programs._scheduler import THREADS, forget, is_preempted
from pyebpf.programs._thread_stacks import ThreadStacks, stacks
from pyebpf.tool import Example, Stack, StackPart, StackTool, Stop, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator


class Wakeup(Struct):
    """Key of the times: where a thread slept, and where the one was that woke it."""

    thread: ThreadStacks
    waker: ThreadStacks


class Slept(Struct):
    """A thread that sleeps, or was woken if `wakeup.waker` is set: since when."""

    time: u64
    woken: u64
    wakeup: Wakeup


@dataclass(frozen=True)
class Options(OffCpuOptions):
    """Options: whose sleeps, and how long ones."""


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    threads = OffCpu(bpf, options)
    sleeping = bpf.hash(key=u64, value=Slept, size=THREADS, name="began")
    times = bpf.hash(key=Wakeup, value=u64, size=options.stack_storage_size, name="totals")

    @bpf.btf_tracepoint("sched_switch")
    def on_switch(ctx: RawTracepointContext) -> None:
        if not is_preempted(ctx) and threads.wanted(ctx.prev):
            nobody = ThreadStacks(pid=0, user=-1, kernel=-1, comm="")
            sleeping[ctx.prev.pid] = Slept(time=now(), woken=0, wakeup=Wakeup(thread=threads.here(), waker=nobody))
        one = sleeping.get(ctx.next.pid)
        if one is not None:
            elapsed = now() - one.time
            if one.woken and threads.counts(elapsed):
                times[one.wakeup] += elapsed
            del sleeping[ctx.next.pid]

    # Unlike sched_wakeup it always runs in the thread that wakes, or in an interrupt of it.
    @bpf.btf_tracepoint("sched_waking")
    def on_waking(p: KernelObject) -> None:
        one = sleeping.get(p.pid)
        if one is not None:
            one.wakeup.waker = threads.here()
            one.woken = 1

    return bpf


def collect(bpf: BPF, options: Options, stop: Stop) -> Iterator[Stack]:
    """The stacks of sleeps, with those of who woke, and the time until the stop, the longest first."""
    for wakeup, microseconds in totals(bpf, stop):
        waker = StackPart("waker", **stacks(bpf, options, wakeup.waker))
        yield Stack(microseconds, **stacks(bpf, options, wakeup.thread), parts=(waker,))


TOOL = StackTool(
    name="offwaketime",
    doc=__doc__,
    tracing="sleeps and wakeups",
    options=Options,
    build=build,
    drop_labels={"began": "sleeps of further threads", "totals": "sleeps of other stacks"},
    unit="us",
    palette="off-cpu",
    collect=collect,
    unseen="a wait counts when it ends: trace until it has, or see /proc/PID/stack for one that goes on",
    reset=forget,
    examples=(
        Example("offwaketime 10", "all threads, for ten seconds"),
        Example("offwaketime -p 181 -f 30", "process 181, folded lines"),
        Example("offwaketime -u --svg out.svg 30", "a flame graph, no kernel threads"),
        Example("offwaketime -m 10000 -K 5", "10 ms and more, kernel stacks"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: offwaketime.open(pid=42)
