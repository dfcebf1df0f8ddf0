"""Direct reclaims: a line for each time that a process had to free memory itself, with how long that took.

It happens when memory is short and the kernel's own threads do not free it fast enough: the process waits. With
--memcg also reclaims in control groups that are at their limit.

Overhead: two probes for each reclaim, which takes far longer.
"""

from __future__ import annotations

import os

from pyebpf import BPF, Struct, char, comm, field, ksym, now, pid, tid, u32, u64, uid
from pyebpf.filters import TaskFilter
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.in_flight import InFlight
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, flag, option, tid_option

DIRECT, MEMCG = "mm_vmscan_direct_reclaim", "mm_vmscan_memcg_reclaim"


class Reclaim(Struct):
    """A reclaim that ended at `time`, after `elapsed` nanoseconds, with `pages` freed.

    `free` are the pages that the machine had free when it began, with -e only.
    """

    time: u64
    elapsed: u64
    pages: u64
    free: u64
    pid: u32
    tid: u32
    uid: u32
    comm: str = field(char[16])

    @property
    def free_bytes(self) -> int:
        """Memory that the machine had free when it began."""
        return int(self.free) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: whose reclaims to report."""

    tid: int | None = tid_option()
    comm: str | None = option("-n", "--comm", "--name", metavar="NAME", help="only threads whose name contains this")
    print_uid: bool = flag("-U", "--print-uid", help="print the user's id", output_only=True)
    extended: bool = flag("-e", "--extended", help="print the machine's free memory")
    memcg: bool = flag("--memcg", help="also those of control groups at their limit")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    reclaims = bpf.ringbuf(Reclaim, name="reclaims")
    begun = InFlight(bpf)
    if options.extended:
        free = bpf.hash(key=u64, value=u64, size=65_536, name="free")
    kinds = (DIRECT, MEMCG) if options.memcg else (DIRECT,)

    @bpf.btf_tracepoint(*(f"{kind}_begin" for kind in kinds))
    def on_begin() -> None:
        if tasks.wanted():
            begun.start(get_current_pid_tgid())
            if options.extended:
                # include/linux/mmzone.h: NR_FREE_PAGES is the first of enum zone_stat_item.
                free[get_current_pid_tgid()] = ksym("vm_zone_stat", u64)

    @bpf.btf_tracepoint(*(f"{kind}_end" for kind in kinds))
    def on_end(nr_reclaimed: int) -> None:
        elapsed = begun.end(get_current_pid_tgid())
        if elapsed is not None:
            reclaims.emit(
                Reclaim(
                    time=now(),
                    elapsed=elapsed,
                    pages=nr_reclaimed,
                    free=free.pop(get_current_pid_tgid(), 0) if options.extended else 0,
                    pid=pid(),
                    tid=tid(),
                    uid=uid(),
                    comm=comm(),
                )
            )

    return bpf


def columns(options: Options) -> tuple[Column, ...]:
    """The book's columns; -U and -e print one more each."""
    return (
        Column("UID", 6, printed=options.print_uid),
        Column("COMM", 16),
        Column("PID", 7),
        Column("TID", printed=False),
        Column("LAT(ms)", 8, ">", key="elapsed", scale=1_000_000, decimals=2, field="latency_ns", drawn=True),
        Column("PAGES", 8 if options.extended else 0, key="pages", field="reclaimed_pages"),
        *([Column("FREE(KB)", key="free_bytes", scale=1024, decimals=0)] if options.extended else []),
    )


TOOL = EventTool(
    name="drsnoop",
    doc=__doc__,
    section="7.3.9",
    tracing="direct reclaim",
    options=Options,
    build=build,
    drop_labels={"reclaims": "reclaims", "in_flight": "reclaims under way", "free": "reclaims under way"},
    record=Reclaim,
    columns=columns,
    examples=(
        Example("drsnoop", "every direct reclaim"),
        Example("drsnoop --memcg -T", "of control groups, too"),
        Example("drsnoop -U -n cc1", "by name, with the user's id"),
        Example("drsnoop -e", "with the machine's free memory"),
        Example("drsnoop -p 181 --json", "by process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: drsnoop.open(pid=42)
