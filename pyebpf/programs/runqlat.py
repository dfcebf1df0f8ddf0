"""Run queue latency as a histogram: how long threads wait for a processor when they could run.

The time runs from a thread's wakeup, or from when another takes its processor, until it runs. Waits that began before
tracing did are left out.

Overhead: 0.1 us for each wakeup and for each context switch on the machine; the kernel's cost of reaching a probe comes
on top.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, RawTracepointContext
from pyebpf.in_flight import InFlight
from pyebpf.programs._scheduler import TASK_DEAD, THREADS, DurationOptions, Durations, forget, is_preempted, state
from pyebpf.tool import Example, SummaryTool, dataclass, flag, histograms_of


@dataclass(frozen=True)
class Options(DurationOptions):
    """Options: whose latency to measure, and how to group and show it."""

    by_namespace: bool = flag("--pidnss", help="a histogram for each pid namespace")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    waits, latency = InFlight(bpf, size=THREADS, name="began"), Durations(bpf, options)

    @bpf.btf_tracepoint("sched_wakeup", "sched_wakeup_new")
    def on_wakeup(p: KernelObject) -> None:
        if latency.wanted(p):
            waits.start(p.pid)

    @bpf.btf_tracepoint("sched_switch")
    def on_switch(ctx: RawTracepointContext) -> None:
        prev, task = ctx.prev, ctx.next
        if is_preempted(ctx):
            if latency.wanted(prev):
                waits.start(prev.pid)
        elif state(prev) == TASK_DEAD:
            waits.cancel(prev.pid)
        elapsed = waits.end(task.pid)
        if elapsed is not None:
            latency.add(task, elapsed)

    return bpf


TOOL = SummaryTool(
    name="runqlat",
    doc=__doc__,
    tracing="run queue latency",
    options=Options,
    build=build,
    drop_labels={"began": "waits of further threads", "duration": "waits of further kinds"},
    snapshot=histograms_of("duration"),
    reset=forget,
    examples=(
        Example("runqlat", "one histogram, printed at the end"),
        Example("runqlat -m 1 5", "milliseconds, each second, five times"),
        Example("runqlat -P 10", "a histogram for each process, every 10 s"),
        Example("runqlat -p 181 -L", "for each thread of process 181"),
        Example("runqlat --pidnss -d 10", "for each container, of ten seconds"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: runqlat.open(pid=42)
