"""Time that threads spend off the processors, by the stacks with which they left: waiting, sleeping, or preempted.

Microseconds are added up by thread name, process and stacks, and printed at the end: as text, folded lines, a flame
graph or a file for another profiler. Time that began before tracing did is left out, and so is what has not ended at
its end.

Overhead: two stacks for each context switch of the threads that are traced, 1 us; 0.1 us for those of others. Choose
processes (-p) on a machine that switches often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, RawTracepointContext, Struct, now, u64
from pyebpf.programs._off_cpu import OffCpu, OffCpuOptions, totals
from pyebpf.programs._scheduler import THREADS, forget
from pyebpf.programs._thread_stacks import PythonThreadStacks, ThreadStacks, stacks
from pyebpf.python_stacks import python_option
from pyebpf.tool import Example, Stack, StackTool, Stop, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator


class Left(Struct):
    """A thread that is off the processors: since when, and where it left."""

    time: u64
    thread: ThreadStacks


class PythonLeft(Struct):
    """One whose process may run Python."""

    time: u64
    thread: PythonThreadStacks


@dataclass(frozen=True)
class Options(OffCpuOptions):
    """Options: whose time, and how much of it at a time."""

    python: bool = python_option()


def build(options: Options) -> BPF:
    """The probe and maps; nothing is loaded yet."""
    bpf = BPF()
    threads = OffCpu(bpf, options)
    record: Any = PythonLeft if threads.walk.record is PythonThreadStacks else Left
    left = bpf.hash(key=u64, value=record, size=THREADS, name="began")
    times = bpf.hash(key=threads.walk.record, value=u64, size=options.stack_storage_size, name="totals")

    @bpf.btf_tracepoint("sched_switch")
    def on_switch(ctx: RawTracepointContext) -> None:
        if threads.wanted(ctx.prev):
            left[ctx.prev.pid] = record(time=now(), thread=threads.here())
        one = left.get(ctx.next.pid)
        if one is not None:
            elapsed = now() - one.time
            if threads.counts(elapsed):
                times[one.thread] += elapsed
            del left[ctx.next.pid]

    return bpf


def collect(bpf: BPF, options: Options, stop: Stop) -> Iterator[Stack]:
    """The stacks with their time until the stop, since the call before, the longest first."""
    for thread, microseconds in totals(bpf, stop):
        yield Stack(microseconds, **stacks(bpf, options, thread))


TOOL = StackTool(
    name="offcputime",
    doc=__doc__,
    tracing="time off the processors",
    options=Options,
    build=build,
    drop_labels={
        "began": "times of further threads",
        "totals": "times of other stacks",
        "python_calls": "calls of Python's functions",
    },
    unit="us",
    palette="off-cpu",
    collect=collect,
    unseen="a wait counts when it ends: trace until it has, or see /proc/PID/stack for one that goes on",
    reset=forget,
    examples=(
        Example("offcputime 10", "all threads, for ten seconds"),
        Example("offcputime -p 181 -df 30", "process 181, folded lines"),
        Example("offcputime -u --svg out.svg 30", "a flame graph, no kernel threads"),
        Example("offcputime -K -m 10000 5", "kernel stacks, 10 ms and more"),
        Example("offcputime --state 2 5", "sleep that signals do not end"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: offcputime.open(pid=42)
