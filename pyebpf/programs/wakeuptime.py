"""Time that threads are blocked, by the stacks of those who wake them.

Microseconds from the sleep of a thread to its wakeup are added up by both threads' names and processes, and the stacks
of the one that wakes. Printed at the end: as text, folded lines, a flame graph or a file for another profiler. Sleeps
that began before tracing did are left out.

Overhead: two stacks for each wakeup of the threads that are traced, 1 us, and 0.1 us for each context switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, RawTracepointContext, Struct, char, field, now, pid, u32, u64
from pyebpf.programs._off_cpu import OffCpu, OffCpuOptions, totals
from pyebpf.programs._scheduler import THREADS, forget, is_preempted
from pyebpf.programs._thread_stacks import ThreadStacks, stacks
from pyebpf.tool import Example, Stack, StackPart, StackTool, Stop, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator


class Slept(Struct):
    """A thread that sleeps: since when, and of which process."""

    time: u64
    pid: u32


class Wakeup(Struct):
    """Key of the times: who woke whom."""

    waker: ThreadStacks
    target_pid: u32
    target_comm: str = field(char[16])


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
            sleeping[ctx.prev.pid] = Slept(time=now(), pid=pid())

    # Unlike sched_wakeup it always runs in the thread that wakes, or in an interrupt of it.
    @bpf.btf_tracepoint("sched_waking")
    def on_waking(p: KernelObject) -> None:
        one = sleeping.get(p.pid)
        if one is None:
            return
        elapsed = now() - one.time
        if threads.counts(elapsed):
            times[Wakeup(waker=threads.here(), target_pid=one.pid, target_comm=p.comm)] += elapsed
        del sleeping[p.pid]

    return bpf


def collect(bpf: BPF, options: Options, stop: Stop) -> Iterator[Stack]:
    """The stacks of those who woke, each with whom, and the time until the stop, the longest first."""
    for wakeup, microseconds in totals(bpf, stop):
        target = StackPart("target", wakeup.target_comm, wakeup.target_pid)
        yield Stack(microseconds, **stacks(bpf, options, wakeup.waker), parts=(target,))


TOOL = StackTool(
    name="wakeuptime",
    doc=__doc__,
    tracing="wakeups",
    options=Options,
    build=build,
    drop_labels={"began": "sleeps of further threads", "totals": "sleeps of other stacks"},
    unit="us",
    palette="wakeups",
    collect=collect,
    unseen="a wait counts when it ends: trace until it has, or see /proc/PID/stack for one that goes on",
    reset=forget,
    examples=(
        Example("wakeuptime 10", "all threads, for ten seconds"),
        Example("wakeuptime -p 181 -f 30", "who wakes process 181, folded lines"),
        Example("wakeuptime -u --svg out.svg 30", "a flame graph, no kernel threads"),
        Example("wakeuptime -m 10000 -K 5", "10 ms and more, kernel stacks"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: wakeuptime.open(pid=42)
