"""Time in soft interrupts: totals by kind, histograms with -d, or counts with -C.

Kinds are those of /proc/softirqs. What interrupts a soft interrupt is part of its time.

Overhead: 0.1 us for each soft interrupt; the kernel's cost of reaching a probe comes on top.
"""

from __future__ import annotations

from pyebpf import BPF, Struct, now, u32, u64
from pyebpf.programs._interrupts import MAP, InterruptOptions, Interrupts, total_column
from pyebpf.tool import Column, Example, SummaryTool, counts_of, dataclass, histograms_of

#: include/linux/interrupt.h: the order of HI_SOFTIRQ and so on; the names are those of bcc.
NAMES = ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu")


class Kind(Struct):
    """Key of the totals: the number of a soft interrupt."""

    softirq: u32


@dataclass(frozen=True)
class Options(InterruptOptions):
    """Options: what to count of soft interrupts, and how to show it."""


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    interrupts = Interrupts(bpf, options, Kind)
    began = bpf.percpu_array(value=u64, size=len(NAMES), name="began")

    # The end is attached first, so that nothing counts that began before.
    @bpf.btf_tracepoint("softirq_exit")
    def on_exit(vec_nr: int) -> None:
        if vec_nr < len(NAMES) and began[vec_nr] and interrupts.wanted():
            interrupts.add(Kind(softirq=vec_nr), now() - began[vec_nr])
            began[vec_nr] = 0

    @bpf.btf_tracepoint("softirq_entry")
    def on_entry(vec_nr: int) -> None:
        if vec_nr < len(NAMES):
            began[vec_nr] = now()

    return bpf


def name_of(number: int) -> str:
    """The name of a soft interrupt."""
    return NAMES[number]


def columns(options: Options) -> tuple[Column, ...]:
    """The kind, and its total."""
    return (Column("SOFTIRQ", 16, type="str"), total_column(options))


DISTRIBUTION = SummaryTool(
    name="softirqs",
    doc=__doc__,
    tracing="soft interrupts",
    options=Options,
    build=build,
    snapshot=histograms_of(MAP, softirq=name_of),
)
TOOL = SummaryTool(
    name="softirqs",
    doc=__doc__,
    tracing="soft interrupts",
    options=Options,
    build=build,
    drop_labels={MAP: "soft interrupts of further kinds"},
    snapshot=counts_of(MAP, softirq=name_of),
    record=Kind,
    columns=columns,
    modes={"distribution": DISTRIBUTION},
    examples=(
        Example("softirqs", "the time of each kind, at the end"),
        Example("softirqs 1 10", "each second, ten times"),
        Example("softirqs -d 10", "histograms, every 10 s"),
        Example("softirqs -C 1", "how many there were, each second"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: softirqs.open(count=True)
