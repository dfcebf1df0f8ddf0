"""Time that threads run on a processor at a stretch, as a histogram; with -O the time that they are off it.

The time runs from a thread's switch to a processor until it is switched off, whether it sleeps or another takes its
place. What began before tracing did is left out, and so is the idle task.

Overhead: 0.1 us for each context switch on the machine; the kernel's cost of reaching a probe comes on top.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, RawTracepointContext, cpu
from pyebpf.in_flight import InFlight
from pyebpf.programs._scheduler import TASK_DEAD, THREADS, DurationOptions, Durations, forget, state
from pyebpf.tool import Example, SummaryTool, dataclass, flag, histograms_of


@dataclass(frozen=True)
class Options(DurationOptions):
    """Options: whose time to measure, and how to group and show it."""

    off_cpu: bool = flag("-O", "--offcpu", help="the time off the processors")
    idle: bool = flag("-I", "--include-idle", help="include the idle task")


def number(task: KernelObject) -> int:
    """In a probe: a number that no other thread has; each processor has an idle task, whose pid is 0."""
    return task.pid if task.pid != 0 else (1 << 32) + cpu()


def build(options: Options) -> BPF:
    """The probe and maps; nothing is loaded yet."""
    bpf = BPF()
    stretches, durations = InFlight(bpf, size=THREADS, name="began"), Durations(bpf, options)

    @bpf.btf_tracepoint("sched_switch")
    def on_switch(ctx: RawTracepointContext) -> None:
        prev, task = ctx.prev, ctx.next
        begins, ends = (prev, task) if options.off_cpu else (task, prev)
        if ends.pid != 0 or options.idle:
            elapsed = stretches.end(number(ends))
            if elapsed is not None:
                durations.add(ends, elapsed)
        if options.off_cpu and state(prev) == TASK_DEAD:
            return
        if (begins.pid != 0 or options.idle) and durations.wanted(begins):
            stretches.start(number(begins))

    return bpf


TOOL = SummaryTool(
    name="cpudist",
    doc=__doc__,
    tracing="time on the processors",
    options=Options,
    build=build,
    drop_labels={"began": "further threads", "duration": "times of further kinds"},
    snapshot=histograms_of("duration"),
    reset=forget,
    examples=(
        Example("cpudist", "one histogram, printed at the end"),
        Example("cpudist -O 5", "time off the processors, every 5 s"),
        Example("cpudist -mP 1 10", "milliseconds, by process, ten times"),
        Example("cpudist -p 181 -L", "for each thread of process 181"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: cpudist.open(pid=42)
