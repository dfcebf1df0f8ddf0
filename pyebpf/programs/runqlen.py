"""Lengths of the run queues as a histogram: how many threads wait for a processor, without the one that runs.

Each processor is sampled 99 times a second, also when it is idle. With -O the share of samples in which threads waited
is printed instead.

Overhead: 0.4 us a sample, and the timer's interrupt: at 99 Hz less than 0.1% of each processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, KernelObject, Struct, cpu, current_task, has_field, u32
from pyebpf.tool import Column, Example, Record, SummaryTool, dataclass, flag, histograms_of, option

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 100


class Processor(Struct):
    """Key of a histogram for each processor."""

    cpu: u32


@dataclass(frozen=True)
class Occupancy(Record):
    """A row: the share of samples in which threads waited for a processor; `cpu` is None for all of them."""

    cpu: int | None
    share: float

    @property
    def percent(self) -> str:
        """As bcc has it."""
        return f"{100 * self.share:.2f}%"


@dataclass(frozen=True)
class Options:
    """Options: how often to sample, and how to show it."""

    occupancy: bool = flag("-O", "--runqocc", help="the share of samples in which threads waited")
    by_cpu: bool = flag("-C", "--cpus", help="each processor by itself")
    frequency: int = option(
        "-F", "--frequency", default=99, metavar="HZ", help="samples per second", minimum=1, maximum=1_000_000
    )


def waiting(queue: KernelObject) -> Any:
    """In a probe: how many threads of a processor wait for it, of all scheduling classes."""
    length = queue.nr_running
    # Threads that sleep may stay in the queue for a while. Since Linux commits 76f2f783294d ("sched/eevdf: More PELT vs
    # DELAYED_DEQUEUE") (in v6.13) and c2a295bffeaf ("sched/fair: Add new cfs_rq.h_nr_runnable") (in v6.14).
    if has_field("struct cfs_rq", "h_nr_runnable"):
        length -= queue.cfs.h_nr_queued - queue.cfs.h_nr_runnable
    elif has_field("struct cfs_rq", "h_nr_delayed"):
        length -= queue.cfs.h_nr_delayed
    # One of them runs.
    return max(length - 1, 0)


def build(options: Options) -> BPF:
    """The probe and its map; nothing is loaded yet."""
    bpf = BPF()
    if options.by_cpu:
        each = bpf.linear_hist(0, LONGEST, key=Processor, unit="runqlen", name="lengths")
    else:
        overall = bpf.linear_hist(0, LONGEST, unit="runqlen", name="lengths")

    @bpf.sample(frequency=options.frequency)
    def on_sample() -> None:
        # The kernel's variable `runqueues` has no address where only functions have (without CONFIG_KALLSYMS_ALL).
        length = waiting(current_task().se.cfs_rq.rq)
        if options.by_cpu:
            each[Processor(cpu=cpu())].add(length)
        else:
            overall.add(length)

    return bpf


def occupancy(bpf: BPF, options: Options) -> Iterator[Occupancy]:
    """The share of the interval's samples in which threads waited, by processor."""
    found = bpf["lengths"].interval()
    by_cpu = {key.cpu: each for key, each in found.items()} if options.by_cpu else {None: found}
    for number, lengths in sorted(by_cpu.items(), key=lambda item: item[0] or 0):
        idle = sum(bucket.count for bucket in lengths.buckets if bucket.high == 0)
        if lengths.total:
            yield Occupancy(number, 1 - idle / lengths.total)


def columns(options: Options) -> tuple[Column, ...]:
    """The share, of each processor if that is asked for."""
    share = Column("RUNQOCC", 8, ">", key="percent", value="share", field="occupancy_ratio", type="float")
    return (Column("CPU", 4, type="int"), share) if options.by_cpu else (share,)


OCCUPANCY = SummaryTool(
    name="runqlen",
    doc=__doc__,
    tracing="run queue lengths",
    options=Options,
    build=build,
    drop_labels={"lengths": "samples of further processors"},
    snapshot=occupancy,
    record=Occupancy,
    columns=columns,
)
TOOL = SummaryTool(
    name="runqlen",
    doc=__doc__,
    tracing="run queue lengths",
    options=Options,
    build=build,
    drop_labels={"lengths": "samples of further processors"},
    snapshot=histograms_of("lengths", by_key=True),
    modes={"occupancy": OCCUPANCY},
    examples=(
        Example("runqlen", "one histogram, printed at the end"),
        Example("runqlen 1 10", "each second, ten times"),
        Example("runqlen -C 5", "for each processor, every 5 s"),
        Example("runqlen -O -C 1", "how often threads waited, by processor"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: runqlen.open(by_cpu=True)
