"""Run queue latency as a histogram: how long threads wait for a processor when they could run.

The time runs from a thread's wakeup, or from when another takes its processor, until it runs. Waits that began before
tracing did are left out.

Overhead: 0.1 us for each wakeup and for each context switch on the machine; the kernel's cost of reaching a probe comes
on top.
"""

from __future__ import annotations

from pyebpf import BPF, RawTracepointContext
from pyebpf.programs._scheduler import DurationOptions, Durations, Waits, forget
from pyebpf.tool import Example, SummaryTool, dataclass, flag, histograms_of


@dataclass(frozen=True)
class Options(DurationOptions):
    """Options: whose latency to measure, and how to group and show it."""

    by_namespace: bool = flag("--pidnss", help="a histogram for each pid namespace")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    latency = Durations(bpf, options)
    waits = Waits(bpf, latency.wanted)

    @bpf.btf_tracepoint("sched_switch")
    def on_switch(ctx: RawTracepointContext) -> None:
        elapsed = waits.end(ctx)
        if elapsed is not None:
            latency.add(ctx.next, elapsed)

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
