"""Block I/O by process and disk: a screen each second, the busiest on top.

I/O are the requests that a device completed in the interval, Kbytes their size, AVGms the mean time from their issue to
their completion. PID and COMM are the process that queued them, which may be a thread of the kernel that writes for
others. D is W where data goes to the device, R otherwise. Requests that were merged count as one, one that was issued
again is timed from its last issue, one that completes in parts until its last part.

Overhead: three programs and six map operations for each request.
"""

from __future__ import annotations

from typing import Any

from pyebpf import Struct, char, field, now, u32
from pyebpf.programs._block import Requests, disk_of, disk_option, forget_starts
from pyebpf.tool import Column, Example, Record, SummaryTool, dataclass, load_average, option, pid_option

#: Attributes of a row by what -s calls them.
SORTS = {"bytes": "size", "io": "count", "time": "elapsed"}


class Kind(Struct):
    """Key of the counts: a process's thread, a direction and a disk."""

    pid: u32
    writes: u32
    major: u32
    minor: u32
    comm: str = field(char[16])
    disk: str = field(char[32])


@dataclass(frozen=True)
class Traffic(Record):
    """Requests of a process that a disk completed in an interval: bytes, nanoseconds."""

    pid: int
    comm: str
    direction: str
    major: int
    minor: int
    disk: str
    count: int
    size: int
    elapsed: int

    @property
    def average(self) -> float:
        """The mean latency."""
        return self.elapsed / self.count


@dataclass(frozen=True)
class Options:
    """Options: which requests to count."""

    pid: int | None = pid_option("only requests of this process")
    disk: str | None = disk_option()
    sort: str = option("-s", "--sort", metavar="BY", default="bytes", choices=tuple(SORTS), help="what is on top")


def build(options: Options) -> Requests:
    """The probes and their maps; nothing is loaded yet."""
    bpf = Requests()
    sizes = bpf.counter(key=Kind, name="sizes")
    latencies = bpf.stats(key=Kind, name="latencies")

    def completed(rq: Any, start: Any) -> None:
        disk = disk_of(rq)
        if options.pid is not None and start.pid != options.pid:
            return
        if options.disk is not None and disk.disk_name != options.disk:
            return
        kind = Kind(
            pid=start.pid,
            writes=rq.cmd_flags & 1,
            major=disk.major,
            minor=disk.first_minor,
            comm=start.comm,
            disk=disk.disk_name,
        )
        sizes[kind].add(start.size)
        latencies[kind].add(now() - start.issued)

    bpf.completed = completed
    return bpf


def snapshot(bpf: Requests, options: Options) -> list[Traffic]:
    """The interval's requests, the most first: bytes, requests or time."""
    sizes = bpf["sizes"].interval()
    rows = [
        Traffic(
            kind.pid,
            kind.comm,
            "write" if kind.writes else "read",
            kind.major,
            kind.minor,
            kind.disk,
            latency.count,
            sizes.get(kind, 0),
            latency.total,
        )
        for kind, latency in bpf["latencies"].interval().items()
    ]
    by = SORTS[options.sort]
    return sorted(rows, key=lambda row: (-getattr(row, by), -row.size, -row.count, row.pid, row.disk, row.direction))


TOOL = SummaryTool(
    name="biotop",
    doc=__doc__,
    section="9.3.3",
    tracing="block device I/O",
    options=Options,
    build=build,
    drop_labels={
        "sizes": "requests of further processes",
        "latencies": "requests of further processes",
        "starts": "requests under way",
    },
    reset=forget_starts,
    snapshot=snapshot,
    record=Traffic,
    screen=True,
    heading=load_average,
    columns=(
        Column("PID", 7),
        Column("COMM", 16),
        Column("D", 1, key=lambda row: row.direction[0].upper(), value="direction", field="direction", type="str"),
        Column("MAJ", 4, key="major"),
        Column("MIN", 5, key="minor"),
        Column("DISK", 8),
        Column("I/O", 6, ">", key="count"),
        Column("Kbytes", 9, ">", key="size", scale=1024, decimals=0, field="size_bytes"),
        Column("AVGms", 7, ">", key="average", scale=10**6, decimals=2, field=None),
        Column("TOTALms", key="elapsed", field="latency_ns", printed=False),
    ),
    examples=(
        Example("biotop", "a screen each second"),
        Example("biotop -C 5", "every five seconds, one below the other"),
        Example("biotop -p 181", "of process 181"),
        Example("biotop -s time", "the longest total latency on top"),
        Example("biotop --disk sda -r 40", "of one disk, 40 rows"),
        Example("biotop --json 1 10", "ten seconds, an object a row"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biotop.open(disk="sda")
