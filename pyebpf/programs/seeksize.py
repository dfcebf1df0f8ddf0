"""Distances between successive requests of a disk, in sectors, as a histogram for each process.

The distance is that from the end of the request that was issued to the disk before, by whatever process, to the start
of this one, in either direction: 0 is sequential. It counts for the thread that issues the request: the process that
asked for it, or a thread of the kernel. With -D histograms are the disks', and requests are taken in the order in which
the disk completes them. What has no position on the disk, a flush or a command of the driver's own, does not count.

Overhead: two map operations and a histogram for each request.
"""

from __future__ import annotations

from typing import Any

from pyebpf import BPF, KernelObject, Struct, char, comm, field, u64
from pyebpf.programs._block import NO_SECTOR, SECTOR, disk_of, disk_option, has_position
from pyebpf.tool import Example, SummaryTool, dataclass, flag, histograms_of


class Process(Struct):
    """Key of the histograms: the name of the thread that issued the request."""

    comm: str = field(char[16])


class Disk(Struct):
    """Key of the histograms by disk, and of positions: its name."""

    disk: str = field(char[32])


@dataclass(frozen=True)
class Options:
    """Options: which requests to count, and how to group them."""

    by_disk: bool = flag("-D", "--disks", help="a histogram for each disk, of completions")
    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probe and its maps; nothing is loaded yet."""
    bpf = BPF()
    distances = bpf.log2_hist(key=Disk if options.by_disk else Process, unit="sectors", name="distances")
    # The sector behind the last request of each disk; the first sector of requests that have completed in part.
    ends = bpf.hash(key=Disk, value=u64, size=4096, name="ends")
    if options.by_disk:
        parts = bpf.hash(key=u64, value=u64, name="parts")

    def moved(disk: Any, sector: int, end: int) -> None:
        before = ends.get(disk, NO_SECTOR)
        ends[disk] = end
        if before == NO_SECTOR:
            return
        distance = sector - before if sector >= before else before - sector
        if options.by_disk:
            distances[disk].add(distance)
        else:
            distances[Process(comm=comm())].add(distance)

    if options.by_disk:

        @bpf.btf_tracepoint("block_rq_complete")
        def on_complete(rq: KernelObject, nr_bytes: int) -> None:
            disk = Disk(disk=disk_of(rq).disk_name)
            if not has_position(rq) or nr_bytes == 0 or (options.disk is not None and disk.disk != options.disk):
                return
            sector = rq.__sector
            if nr_bytes < rq.__data_len:
                parts.add(rq, sector)
            else:
                moved(disk, parts.pop(rq, sector), sector + nr_bytes // SECTOR)

    else:

        @bpf.btf_tracepoint("block_rq_issue")
        def on_issue(rq: KernelObject) -> None:
            disk = Disk(disk=disk_of(rq).disk_name)
            if has_position(rq) and (options.disk is None or disk.disk == options.disk):
                moved(disk, rq.__sector, rq.__sector + rq.__data_len // SECTOR)

    return bpf


TOOL = SummaryTool(
    name="seeksize",
    doc=__doc__,
    section="9.3.5",
    tracing="block I/O seeks",
    options=Options,
    build=build,
    drop_labels={
        "distances": "requests of further processes or disks",
        "ends": "positions on further disks",
        "parts": "requests that completed in part",
    },
    snapshot=histograms_of("distances"),
    examples=(
        Example("seeksize", "a histogram a process, at the end"),
        Example("seeksize -D 10", "a disk, every ten seconds"),
        Example("seeksize --disk sda --json -d 60", "of one disk, for a minute"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: seeksize.open(by_disk=True)
