"""How long requests of block I/O gather others: a histogram of the time until their last merge, for each disk.

The time runs from the queueing of a request until the last I/O that was merged into it, before it was issued; requests
that nothing was merged into are not counted. With -c merges themselves are counted: I/O that was added behind a request
(BACK) or before it (FRONT), and requests that became one with another (REQUEST).

Overhead: two map operations for each request, another four for each that was merged, and one for each merge.
"""

from __future__ import annotations

from typing import Any

from pyebpf import BPF, KernelObject, Struct, char, field, has_field, has_tracepoint, now, u64
from pyebpf.programs._block import disk_of, disk_option
from pyebpf.tool import (
    Column,
    Example,
    Record,
    SummaryTool,
    dataclass,
    flag,
    histograms_of,
    milliseconds_option,
    time_unit,
)

KINDS = ("back", "front", "requests")


class Disk(Struct):
    """Key of the histograms and counts: the disk's name."""

    disk: str = field(char[32])


@dataclass(frozen=True)
class Merges(Record):
    """Merges of a disk in an interval."""

    disk: str
    back: int
    front: int
    requests: int


@dataclass(frozen=True)
class Options:
    """Options: which requests to look at, and what to print."""

    milliseconds: bool = milliseconds_option()
    counts: bool = flag("-c", "--count", help="count merges by disk")
    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    if options.counts:
        _count(bpf, options)
    else:
        _time(bpf, options)
    return bpf


def _count(bpf: BPF, options: Options) -> None:
    """Count merges."""
    back, front, requests = (bpf.counter(key=Disk, name=name) for name in KINDS)

    def of_bio(counter: Any, bio: KernelObject) -> None:
        # Since Linux 5.12 (309dca309fc3) a struct bio has its block device; before, it had the disk.
        disk = bio.bi_bdev.bd_disk if has_field("struct bio", "bi_bdev") else bio.bi_disk
        add(counter, Disk(disk=disk.disk_name))

    def add(counter: Any, disk: Any) -> None:
        if options.disk is None or disk.disk == options.disk:
            counter[disk].add()

    @bpf.btf_tracepoint("block_bio_backmerge")
    def on_back_merge(bio: KernelObject) -> None:
        of_bio(back, bio)

    @bpf.btf_tracepoint("block_bio_frontmerge")
    def on_front_merge(bio: KernelObject) -> None:
        of_bio(front, bio)

    @bpf.btf_tracepoint("block_rq_merge")
    def on_request_merge(rq: KernelObject) -> None:
        add(requests, Disk(disk=disk_of(rq).disk_name))


def _time(bpf: BPF, options: Options) -> None:
    """Time requests until their last merge."""
    unit, factor = time_unit(options.milliseconds)
    duration = bpf.log2_hist(key=Disk, unit=unit, name="duration")
    starts = bpf.hash(key=u64, value=u64, size=65_536, name="starts")
    # When a struct bio was merged. That of the last merge is the last or the first of its request when it is issued;
    # those in between are found no more, and are let go of.
    merged = bpf.lru_hash(key=u64, value=u64, size=65_536, name="merged")

    @bpf.btf_tracepoint("block_io_start", optional=True)
    def on_queue(rq: KernelObject) -> None:
        starts[rq] = now()

    @bpf.btf_tracepoint("block_bio_backmerge", "block_bio_frontmerge")
    def on_merge(bio: KernelObject) -> None:
        merged[bio] = now()

    @bpf.btf_tracepoint("block_rq_merge")
    def on_request_merge(rq: KernelObject) -> None:
        # It goes behind the other one, whose last bio its own last one becomes.
        merged[rq.biotail] = now()
        del starts[rq]

    @bpf.btf_tracepoint("block_rq_issue")
    def on_issue(rq: KernelObject) -> None:
        # A request that is issued again has no start any more.
        began = starts.pop(rq, 0) if has_tracepoint("block_io_start") else rq.start_time_ns
        if began == 0 or rq.bio == rq.biotail:
            return
        last = max(merged.pop(u64(rq.bio), 0), merged.pop(u64(rq.biotail), 0))
        if last > began:
            disk = Disk(disk=disk_of(rq).disk_name)
            if options.disk is None or disk.disk == options.disk:
                duration[disk].add((last - began) // factor)


def snapshot(bpf: BPF, options: Options) -> list[Merges]:  # noqa: ARG001 - as every tool's
    """The interval's merges by disk."""
    counts = [dict(bpf[name].interval()) for name in KINDS]
    disks = sorted({key.disk: key for found in counts for key in found}.items())
    return [Merges(name, *(found.get(key, 0) for found in counts)) for name, key in disks]


LABELS = {
    "duration": "requests of further disks",
    "merged": "merges",
    "starts": "requests under way",
    **dict.fromkeys(KINDS, "merges of further disks"),
}
EXAMPLES = (
    Example("biomerge", "a histogram a disk, at the end"),
    Example("biomerge --disk sda 10", "of one disk, every ten seconds"),
    Example("biomerge -c 1", "counts of merges, each second"),
)
COUNTS = SummaryTool(
    name="biomerge",
    doc=__doc__,
    tracing="block I/O merges",
    options=Options,
    build=build,
    drop_labels=LABELS,
    snapshot=snapshot,
    record=Merges,
    columns=(
        Column("DISK", 12),
        Column("BACK", 10, ">"),
        Column("FRONT", 10, ">"),
        Column("REQUEST", 10, ">", key="requests"),
    ),
    examples=EXAMPLES,
)
TOOL = SummaryTool(
    name="biomerge",
    doc=__doc__,
    tracing="block I/O merges",
    options=Options,
    build=build,
    drop_labels=LABELS,
    snapshot=histograms_of("duration"),
    modes={"counts": COUNTS},
    examples=EXAMPLES,
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biomerge.open(counts=True)
