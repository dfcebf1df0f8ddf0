"""Direct reclaims: a line for each time that a process had to free memory itself, with how long that took.

It happens when memory is short and the kernel's own threads do not free it fast enough: the process waits. With
--memcg also reclaims in control groups that are at their limit.

Overhead: two probes for each reclaim, which takes far longer.
"""

from __future__ import annotations

from pyebpf import BPF, Struct, char, comm, field, now, pid, tid, u32, u64
from pyebpf.filters import TaskFilter
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.in_flight import InFlight
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, events_of, flag

DIRECT, MEMCG = "mm_vmscan_direct_reclaim", "mm_vmscan_memcg_reclaim"


class Reclaim(Struct):
    """A reclaim that ended at `time`, after `elapsed` nanoseconds, with `pages` freed."""

    time: u64
    elapsed: u64
    pages: u64
    pid: u32
    tid: u32
    comm: str = field(char[16])


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: whose reclaims to report."""

    memcg: bool = flag("--memcg", help="also those of control groups at their limit")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    reclaims = bpf.ringbuf(Reclaim, name="reclaims")
    begun = InFlight(bpf)
    kinds = (DIRECT, MEMCG) if options.memcg else (DIRECT,)

    @bpf.btf_tracepoint(*(f"{kind}_begin" for kind in kinds))
    def on_begin() -> None:
        if tasks.wanted():
            begun.start(get_current_pid_tgid())

    @bpf.btf_tracepoint(*(f"{kind}_end" for kind in kinds))
    def on_end(nr_reclaimed: int) -> None:
        elapsed = begun.end(get_current_pid_tgid())
        if elapsed is not None:
            reclaims.emit(Reclaim(time=now(), elapsed=elapsed, pages=nr_reclaimed, pid=pid(), tid=tid(), comm=comm()))

    return bpf


TOOL = EventTool(
    name="drsnoop",
    doc=__doc__,
    section="7.3.9",
    tracing="direct reclaim",
    options=Options,
    build=build,
    drop_labels={"reclaims": "reclaims", "in_flight": "reclaims under way"},
    records=events_of("reclaims", "time"),
    record=Reclaim,
    time="time",
    columns=(
        Column("COMM", 16),
        Column("PID", 7),
        Column("TID", printed=False),
        Column("LAT(ms)", 8, ">", key="elapsed", scale=1_000_000, decimals=2, field="latency_ns", drawn=True),
        Column("PAGES", key="pages", field="reclaimed_pages"),
    ),
    examples=(
        Example("drsnoop", "every direct reclaim"),
        Example("drsnoop --memcg -T", "of control groups, too"),
        Example("drsnoop -p 181 --json", "by process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: drsnoop.open(pid=42)
