"""Block I/O latency as a histogram.

Times each request from its issue to the device until its completion. Requests are paired by the address of struct
request, so merged requests count once, a requeued request is timed from its last issue, and one that completes in parts
until its last part completes. A flush of the device's cache is a request of its own (-F shows it as such).

With -Q the time begins when the request is queued: at block_io_start, or on kernels without that tracepoint (before
Linux 6.5) at request.start_time_ns, which is set when the request is allocated. Requests of a queue that keeps no
statistics (queue/iostats is 0) have neither; they are timed from their issue.

Overhead: 0.2 us for each request, for two map operations (three with -Q) and the histogram; the kernel's cost of
reaching a probe comes on top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, Struct, char, field, has_tracepoint, now, u32, u64
from pyebpf.programs._block import FLUSH, OPERATION_MASK, disk_of, disk_option, flag_names, is_wanted
from pyebpf.tool import Example, Histogram, SummaryTool, dataclass, flag, milliseconds_option, time_unit

if TYPE_CHECKING:
    from collections.abc import Iterator

LATENCY = "latency"


class Kind(Struct):
    """Key of the histograms: what they are told apart by, zero and nothing where they are not."""

    flags: u32
    disk: str = field(char[32])


@dataclass(frozen=True)
class Options:
    """Options: the times to measure, and how to group them."""

    queued: bool = flag("-Q", "--queued", help="include the time in the operating system's queue")
    by_disk: bool = flag("-D", "--disks", help="a histogram for each disk")
    by_flags: bool = flag("-F", "--flags", help="a histogram for each set of I/O flags")
    linear: bool = flag("-L", "--linear", help="a linear histogram, 0 to 100 ms in steps of 1 (implies -m)")
    milliseconds: bool = milliseconds_option()
    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    starts = bpf.hash(key=u64, value=u64)
    unit, factor = time_unit(options.milliseconds or options.linear)
    keyed = options.by_disk or options.by_flags
    if keyed and options.linear:
        by_kind = bpf.linear_hist(0, 100, key=Kind, unit=unit, name=LATENCY)
    elif keyed:
        by_kind = bpf.log2_hist(key=Kind, unit=unit, name=LATENCY)
    elif options.linear:
        overall = bpf.linear_hist(0, 100, unit=unit, name=LATENCY)
    else:
        overall = bpf.log2_hist(unit=unit, name=LATENCY)

    @bpf.btf_tracepoint("block_rq_issue")
    def on_issue(rq: KernelObject) -> None:
        if not options.queued:
            starts[rq] = now()
        elif not has_tracepoint("block_io_start"):
            starts[rq] = rq.start_time_ns or now()
        elif rq.cmd_flags & OPERATION_MASK != FLUSH:
            # One that was queued has its start. A flush belongs to the request that asked for it, which was queued.
            starts.add(rq, now())

    if options.queued:

        @bpf.btf_tracepoint("block_io_start", optional=True)
        def on_queue(rq: KernelObject) -> None:
            starts[rq] = now()

        @bpf.btf_tracepoint("block_rq_merge")
        def on_merge(rq: KernelObject) -> None:
            del starts[rq]

    else:

        @bpf.btf_tracepoint("block_rq_requeue")
        def on_requeue(rq: KernelObject) -> None:
            del starts[rq]

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, nr_bytes: int) -> None:
        if nr_bytes < rq.__data_len:
            return
        began = starts.get(rq)
        if began is None:
            return
        del starts[rq]
        if not is_wanted(rq, options.disk):
            return
        elapsed = (now() - began) // factor
        if keyed:
            flags = rq.cmd_flags if options.by_flags else 0
            disk = ""
            if options.by_disk:
                disk = disk_of(rq).disk_name
            by_kind[Kind(flags=flags, disk=disk)].add(elapsed)
        else:
            overall.add(elapsed)

    return bpf


def snapshot(bpf: BPF, options: Options) -> Iterator[Histogram]:
    """The interval's histograms, by disk, then by flags."""
    interval = bpf[LATENCY].interval()
    if isinstance(interval, Histogram):
        yield interval
        return
    for kind, histogram in sorted(interval.items(), key=lambda item: (item[0].disk, item[0].flags)):
        labels: dict[str, object] = {"disk": kind.disk} if options.by_disk else {}
        if options.by_flags:
            labels["flags"] = flag_names(kind.flags)
        yield histogram.with_labels(labels)


TOOL = SummaryTool(
    name="biolatency",
    doc=__doc__,
    section="9.3.1",
    tracing="block device I/O",
    options=Options,
    build=build,
    drop_labels={"starts": "requests under way", LATENCY: "requests of other kinds"},
    snapshot=snapshot,
    examples=(
        Example("biolatency", "one histogram, printed at the end"),
        Example("biolatency -m 1 10", "milliseconds, each second, ten times"),
        Example("biolatency -Q -D", "with the time queued, for each disk"),
        Example("biolatency -F -T 5", "by flags, every 5 s, with the time"),
        Example("biolatency -L 1", "0 to 100 ms in steps of 1, each second"),
        Example("biolatency --disk sda", "of one disk"),
        Example("biolatency --heatmap io.svg 1", "a picture, a column a second"),
        Example("biolatency -D --json -d 10", "for ten seconds, an object a disk"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biolatency.open(by_disk=True)
