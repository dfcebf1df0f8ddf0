"""Time that threads are blocked, by the stacks with which they slept and those of all who woke each other to end it.

Above the stack of a sleep stands that of the thread that woke it, then that of who had woken that one, and so on, up to
four. The chain ends at a thread that was not woken while tracing, and at a wakeup by an interrupt, which has the name
of the thread that was interrupted. Microseconds from the sleep until the thread runs again are printed at the end: as
text, folded lines, a flame graph or a file for another profiler.

Overhead: two stacks for each wakeup on the machine, and two for each sleep of the threads that are traced, 1 us each
time; 0.1 us for other context switches.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, RawTracepointContext, Struct, helpers, now, u64
from pyebpf.programs._off_cpu import OffCpu, OffCpuOptions, totals
from pyebpf.programs._scheduler import TASK_DEAD, THREADS, forget, is_preempted, state
from pyebpf.programs._thread_stacks import ThreadStacks, stacks
from pyebpf.tool import Example, Stack, StackPart, StackTool, Stop, dataclass, option

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST = 4
#: Where x86-64 and arm64 enter the kernel for an interrupt.
INTERRUPT = re.compile(r"asm_(sysvec_\w+|common_interrupt)|el[01][ht]?_?(32_|64_)?(irq|fiq)")


class Wakers(Struct):
    """Those who woke each other until one woke a thread, that one first; `comm` is empty where there is none."""

    first: ThreadStacks
    second: ThreadStacks
    third: ThreadStacks
    fourth: ThreadStacks


class Chain(Struct):
    """Key of the times: where a thread slept, and who woke it."""

    thread: ThreadStacks
    wakers: Wakers


class Slept(Struct):
    """A thread that sleeps: since when, and where."""

    time: u64
    thread: ThreadStacks


@dataclass(frozen=True)
class Options(OffCpuOptions):
    """Options: whose sleeps, and how long ones; how long chains."""

    depth: int = option("--depth", default=DEEPEST, metavar="N", help="wakers at most", minimum=1, maximum=DEEPEST)


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    threads = OffCpu(bpf, options)
    sleeping = bpf.hash(key=u64, value=Slept, size=THREADS, name="began")
    woken = bpf.hash(key=u64, value=Wakers, size=THREADS, name="woken")
    times = bpf.hash(key=Chain, value=u64, size=options.stack_storage_size, name="totals")

    # Unlike sched_wakeup it always runs in the thread that wakes, or in an interrupt of it.
    @bpf.btf_tracepoint("sched_waking")
    def on_waking(p: KernelObject) -> None:
        nobody = ThreadStacks(pid=0, user=-1, kernel=-1, comm="")
        waker = threads.here()
        before = woken.get(helpers.get_current_pid_tgid() & 0xFFFFFFFF)
        if before is None:
            woken[p.pid] = Wakers(first=waker, second=nobody, third=nobody, fourth=nobody)
        else:
            woken[p.pid] = Wakers(first=waker, second=before.first, third=before.second, fourth=before.third)

    @bpf.btf_tracepoint("sched_switch")
    def on_switch(ctx: RawTracepointContext) -> None:
        prev, number = ctx.prev, ctx.next.pid
        if state(prev) == TASK_DEAD:
            del woken[prev.pid]
        elif not is_preempted(ctx) and threads.wanted(prev):
            sleeping[prev.pid] = Slept(time=now(), thread=threads.here())
        one = sleeping.get(number)
        if one is None:
            return
        elapsed = now() - one.time
        wakers = woken.get(number)
        if wakers is not None and threads.counts(elapsed):
            times[Chain(thread=one.thread, wakers=wakers)] += elapsed
        del sleeping[number]

    return bpf


def collect(bpf: BPF, options: Options, stop: Stop) -> Iterator[Stack]:
    """The stacks of sleeps with their wakers, and the time until the stop, the longest first."""
    for chain, microseconds in totals(bpf, stop):
        wakers = chain.wakers
        parts = []
        for thread in (wakers.first, wakers.second, wakers.third, wakers.fourth)[: options.depth]:
            if not thread.comm:
                break
            parts.append(StackPart("waker", **stacks(bpf, options, thread)))
            if any(INTERRUPT.fullmatch(frame.name) for frame in bpf.stacks.kernel(thread.kernel)):
                break
        yield Stack(microseconds, **stacks(bpf, options, chain.thread), parts=tuple(parts))


def reset(bpf: BPF) -> None:
    """Drop what began, and who was woken, before all probes were attached."""
    forget(bpf)
    bpf["woken"].clear()


TOOL = StackTool(
    name="chain",
    doc=__doc__,
    tracing="sleeps and chains of wakeups",
    options=Options,
    build=build,
    drop_labels={"began": "sleeps of further threads", "totals": "other chains", "woken": "wakers of further threads"},
    unit="us",
    palette="off-cpu",
    collect=collect,
    unseen="a wait counts when it ends: trace until it has, or see /proc/PID/stack for one that goes on",
    reset=reset,
    examples=(
        Example("chain 10", "all threads, for ten seconds"),
        Example("chain -p 181 --depth 2 30", "process 181, its wakers and theirs"),
        Example("chain -u --svg out.svg 30", "a chain graph, no kernel threads"),
        Example("chain -m 10000 -K -f 5", "10 ms and more, kernel stacks, folded"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: chain.open(pid=42)
