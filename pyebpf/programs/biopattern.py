"""Random and sequential block I/O: the percentage of each disk's requests that are either, each interval.

A request is sequential if it begins where the disk's request before it ended, in the order in which they are completed;
otherwise it is random, as is the first. Requests that were merged count as one, and one that completes in parts counts
once. What has no position on the disk, a flush or a command of the driver's own, does not count.

Overhead: five map operations for each request.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, field, u64
from pyebpf.programs._block import NO_SECTOR, SECTOR, disk_of, disk_option, has_position
from pyebpf.tool import Column, Example, Record, SummaryTool, dataclass


class Disk(Struct):
    """Key of the counts: the disk's name."""

    name: str = field(char[32])


@dataclass(frozen=True)
class Pattern(Record):
    """Requests of a disk in an interval, and their bytes."""

    disk: str
    sequential: int
    random: int
    size: int

    @property
    def count(self) -> int:
        """All requests."""
        return self.sequential + self.random

    @property
    def random_percent(self) -> int:
        """Those that are random, in whole percent, cut as the book's are."""
        return 100 * self.random // self.count

    @property
    def sequential_percent(self) -> int:
        """Those that are sequential, in whole percent."""
        return 100 * self.sequential // self.count


@dataclass(frozen=True)
class Options:
    """Options: which requests to count."""

    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probe and its maps; nothing is loaded yet."""
    bpf = BPF()
    sequential = bpf.counter(key=Disk, name="sequential")
    random = bpf.counter(key=Disk, name="random")
    sizes = bpf.counter(key=Disk, name="sizes")
    # The sector behind the last request of each disk; the first sector of requests that have completed in part.
    ends = bpf.hash(key=Disk, value=u64, size=4096, name="ends")
    parts = bpf.hash(key=u64, value=u64, name="parts")

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, nr_bytes: int) -> None:
        key = Disk(name=disk_of(rq).disk_name)
        if not has_position(rq) or nr_bytes == 0 or (options.disk is not None and key.name != options.disk):
            return
        sector = rq.__sector
        sizes[key].add(nr_bytes)
        if nr_bytes < rq.__data_len:
            parts.add(rq, sector)
            return
        if parts.pop(rq, sector) == ends.get(key, NO_SECTOR):
            sequential[key].add()
        else:
            random[key].add()
        ends[key] = sector + nr_bytes // SECTOR

    return bpf


def snapshot(bpf: BPF, options: Options) -> list[Pattern]:  # noqa: ARG001 - as every tool's
    """The interval's requests by disk."""
    sequential, random, sizes = (dict(bpf[name].interval()) for name in ("sequential", "random", "sizes"))
    rows = [
        Pattern(key.name, sequential.get(key, 0), random.get(key, 0), sizes.get(key, 0))
        for key in {**sequential, **random}
    ]
    return sorted(rows, key=lambda row: row.disk)


TOOL = SummaryTool(
    name="biopattern",
    doc=__doc__,
    section="9.3.6",
    tracing="block device I/O",
    options=Options,
    build=build,
    drop_labels={
        "sequential": "requests of further disks",
        "random": "requests of further disks",
        "sizes": "sizes of requests of further disks",
        "ends": "positions on further disks",
        "parts": "requests that completed in part",
    },
    snapshot=snapshot,
    record=Pattern,
    columns=(
        Column("DISK", 12),
        Column("%RND", 5, ">", key="random_percent", field=None),
        Column("%SEQ", 5, ">", key="sequential_percent", field=None),
        Column("COUNT", 8, ">"),
        Column("KBYTES", 10, ">", key="size", scale=1024, decimals=0, field="size_bytes"),
        Column("RANDOM", key="random", printed=False),
        Column("SEQUENTIAL", key="sequential", printed=False),
    ),
    examples=(
        Example("biopattern", "all until Ctrl-C"),
        Example("biopattern 1", "each second"),
        Example("biopattern -T 10 6", "for a minute, with the time"),
        Example("biopattern --disk sda --csv 1", "of one disk, as CSV"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biopattern.open(disk="sda")
