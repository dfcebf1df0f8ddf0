"""Block I/O latency as a histogram.

Times each request from its issue to the device until its completion, paired by the address of the kernel's struct
request, so merged requests count once, a requeued one from its last issue, and one that completes in parts when the
last part is done. A flush that the kernel makes by itself is a request of its own (-F shows it as such).

With -Q the time begins when the request is queued: at block_io_start, or on kernels without that tracepoint (before
Linux 6.5) at request.start_time_ns, which is set when the request is allocated. There, requests whose queue keeps no
such time are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, Struct, char, field, has_tracepoint, now, u32, u64
from pyebpf.tool import Example, Histogram, SummaryTool, flag, milliseconds_option

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TOOL", "Options", "build", "open"]

#: include/linux/blk_types.h: enum req_op is the low 8 bits of cmd_flags, enum req_flag_bits what follows. Both are the
#: same from Linux 6.1 to 6.18 for the names here.
OPERATIONS = {0: "Read", 1: "Write", 2: "Flush", 3: "Discard", 5: "SecureErase", 9: "WriteZeroes"}
OPERATION_MASK = 0xFF
FLAGS = {
    11: "Sync",
    12: "Metadata",
    13: "Priority",
    14: "NoMerge",
    15: "Idle",
    16: "Integrity",
    17: "ForcedUnitAccess",
    18: "PreFlush",
    19: "ReadAhead",
    20: "Background",
    21: "NoWait",
}


class DiskFlags(Struct):
    """Key of the histograms by both."""

    flags: u32
    disk: str = field(char[32])


@dataclass(frozen=True)
class Options:
    """What is timed, and how it is told apart."""

    queued: bool = flag("-Q", "--queued", help="include the time in the operating system's queue")
    by_disk: bool = flag("-D", "--disks", help="a histogram for each disk")
    by_flags: bool = flag("-F", "--flags", help="a histogram for each set of I/O flags")
    linear: bool = flag("-L", "--linear", help="a linear histogram, 0 to 100 ms in steps of 1 (implies -m)")
    milliseconds: bool = milliseconds_option()


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    starts = bpf.hash(key=u64, value=u64, name="starts")
    milliseconds = options.milliseconds or options.linear
    unit, factor = ("msecs", 1_000_000) if milliseconds else ("usecs", 1_000)
    key = DiskFlags if options.by_disk and options.by_flags else u32 if options.by_flags else char[32]
    keyed = options.by_disk or options.by_flags
    if options.linear:
        latency = bpf.linear_hist(start=0, stop=100, step=1, key=key if keyed else None, unit=unit, name="latency")
    else:
        latency = bpf.log2_hist(key=key if keyed else None, unit=unit, name="latency")

    if options.queued:

        @bpf.btf_tracepoint("block_io_start", optional=True)
        def on_queue(rq: KernelObject) -> None:
            starts[rq] = now()

        @bpf.btf_tracepoint("block_rq_merge")
        def on_merge(rq: KernelObject) -> None:
            del starts[rq]

    else:

        @bpf.btf_tracepoint("block_rq_issue")
        def on_issue(rq: KernelObject) -> None:
            starts[rq] = now()

        @bpf.btf_tracepoint("block_rq_requeue")
        def on_requeue(rq: KernelObject) -> None:
            del starts[rq]

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, nr_bytes: int) -> None:
        if nr_bytes < rq.__data_len:
            return
        if options.queued and not has_tracepoint("block_io_start"):
            began: u64 = rq.start_time_ns
            if began == 0:
                return
        else:
            start = starts.get(rq)
            if start is None:
                return
            began = start
            del starts[rq]
        elapsed = (now() - began) // factor
        if options.by_disk and options.by_flags:
            latency[DiskFlags(flags=rq.cmd_flags, disk=rq.q.disk.disk_name)].add(elapsed)
        elif options.by_disk:
            latency[rq.q.disk.disk_name].add(elapsed)
        elif options.by_flags:
            latency[rq.cmd_flags].add(elapsed)
        else:
            latency.add(elapsed)

    return bpf


def flag_names(flags: int) -> str:
    """What bcc prints for a request's cmd_flags: "Sync-Metadata-Write"."""
    operation = OPERATIONS.get(flags & OPERATION_MASK, "Unknown")
    return "-".join([*(name for bit, name in reversed(FLAGS.items()) if flags >> bit & 1), operation])


def snapshot(bpf: BPF, options: Options) -> Iterator[Histogram]:
    """The interval's histograms, disks in the order of their names."""
    interval = bpf["latency"].interval()
    if isinstance(interval, Histogram):
        yield interval
        return
    for _, histogram in sorted(interval.items(), key=lambda item: str(item[0])):
        labels = dict(histogram.labels)
        if options.by_flags:
            labels["flags"] = flag_names(int(str(labels["flags"])))
        yield replace(histogram, labels=labels)


TOOL = SummaryTool(
    name="biolatency",
    doc=__doc__,
    section="9.3.1",
    tracing="block device I/O",
    options=Options,
    build=build,
    snapshot=snapshot,
    examples=(
        Example("biolatency", "one histogram, printed at the end"),
        Example("biolatency -m 1 10", "milliseconds, each second, ten times"),
        Example("biolatency -Q -D", "with the time queued, for each disk"),
        Example("biolatency -F -T 5", "for each set of flags, every five seconds, with the time of day"),
        Example("biolatency -L 1", "0 to 100 ms in steps of 1, each second"),
        Example("biolatency -D --json -d 10", "for ten seconds, a JSON object a disk"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biolatency.open(by_disk=True)
