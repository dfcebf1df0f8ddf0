"""Time in the handlers of hardware interrupts: totals by handler, histograms with -d, or counts with -C.

Handlers are those of devices, as the ends of the lines of /proc/interrupts name them. Interrupts that processors have
of their own, as for timers and for each other, have none.

Overhead: 0.5 us for each interrupt; the kernel's cost of reaching a probe comes on top.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, field, kernel_string, now, u64
from pyebpf.programs._interrupts import MAP, InterruptOptions, Interrupts, total_column
from pyebpf.tool import Column, Example, SummaryTool, counts_of, dataclass, histograms_of


class Handler(Struct):
    """Key of the totals: a handler's name."""

    hardirq: str = field(char[32])


@dataclass(frozen=True)
class Options(InterruptOptions):
    """Options: what to count of interrupts, and how to show it."""


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    interrupts = Interrupts(bpf, options, Handler)
    # A processor has one at a time: interrupts are off while a handler runs.
    began = bpf.percpu_array(value=u64, name="began")

    # The end is attached first, so that nothing counts that began before.
    @bpf.btf_tracepoint("irq_handler_exit")
    def on_exit(action: KernelObject) -> None:
        if began[0] and interrupts.wanted():
            interrupts.add(Handler(hardirq=kernel_string(action.name)), now() - began[0])
            began[0] = 0

    @bpf.btf_tracepoint("irq_handler_entry")
    def on_entry() -> None:
        began[0] = now()

    return bpf


def columns(options: Options) -> tuple[Column, ...]:
    """The handler, and its total."""
    return (Column("HARDIRQ", 26, cut=False), total_column(options))


DISTRIBUTION = SummaryTool(
    name="hardirqs",
    doc=__doc__,
    tracing="hardware interrupts",
    options=Options,
    build=build,
    drop_labels={MAP: "interrupts of further handlers"},
    snapshot=histograms_of(MAP),
)
TOOL = SummaryTool(
    name="hardirqs",
    doc=__doc__,
    tracing="hardware interrupts",
    options=Options,
    build=build,
    drop_labels={MAP: "interrupts of further handlers"},
    snapshot=counts_of(MAP),
    record=Handler,
    columns=columns,
    modes={"distribution": DISTRIBUTION},
    examples=(
        Example("hardirqs", "the time of each handler, at the end"),
        Example("hardirqs 1 10", "each second, ten times"),
        Example("hardirqs -d -N 10", "histograms in nanoseconds, every 10 s"),
        Example("hardirqs -C 1", "how many there were, each second"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: hardirqs.open(count=True)
