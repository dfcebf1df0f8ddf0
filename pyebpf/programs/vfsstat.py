"""File system calls each second: reads, writes, syncs, opens, and files and directories made and removed.

Counts the functions of the kernel's virtual file system, which serve all file systems, pipes and the like.

Overhead: a probe and a per-CPU count for each call; there may be a million a second.
"""

from __future__ import annotations

import errno
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyebpf import BPF, u32, u64
from pyebpf.filters import TaskFilter
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.tool import Column, Example, Record, SummaryTool, TaskOptions, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The function of each column, in order. Files that open(2) creates do not pass vfs_create. Compilers take vfs_rmdir
#: apart (vfs_rmdir.part.0 of Debian's Linux 5.10), and its caller passes by the rest.
FUNCTIONS = {
    "read": "vfs_read",
    "write": "vfs_write",
    "fsync": "vfs_fsync_range",
    "open": "vfs_open",
    "create": "security_inode_create",
    "unlink": "vfs_unlink",
    "mkdir": "vfs_mkdir",
    "rmdir": "security_inode_rmdir",
}
FSYNC = list(FUNCTIONS).index("fsync")
SYSTEM_CALLS = "fsync", "fdatasync"


@dataclass(frozen=True)
class Calls(Record):
    """The calls of an interval of `seconds`."""

    seconds: float
    read: int
    write: int
    fsync: int
    open: int
    create: int
    unlink: int
    mkdir: int
    rmdir: int


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which processes to count."""


class Clock(BPF):
    """A module that knows when the interval began."""

    began = 0.0

    def elapsed(self) -> float:
        """Seconds of the interval, which ends."""
        before, self.began = self.began, monotonic()
        return self.began - before


def build(options: Options) -> Clock:
    """The probes and the counts; nothing is loaded yet."""
    bpf, tasks = Clock(), TaskFilter(options)
    calls = bpf.counter(key=u32, name="calls")
    syncing = bpf.lru_hash(key=u64, value=u64, size=8192)

    def probe(number: int, function: str) -> None:
        @bpf.function(function)
        def on_call() -> None:
            if tasks.wanted():
                calls[number].add()
                if number == FSYNC:
                    del syncing[get_current_pid_tgid()]

    for each in enumerate(FUNCTIONS.values()):
        probe(*each)

    # A compiler may put a copy of vfs_fsync_range into these, as that of Debian's 7.3: then it is not seen meanwhile.
    @bpf.tracepoint(*(f"syscalls:sys_enter_{call}" for call in SYSTEM_CALLS))
    def on_enter() -> None:
        if tasks.wanted():
            syncing[get_current_pid_tgid()] = 1

    @bpf.tracepoint(*(f"syscalls:sys_exit_{call}" for call in SYSTEM_CALLS))
    def on_exit(ret: int) -> None:
        if syncing.pop(get_current_pid_tgid(), 0) and ret != -errno.EBADF:
            calls[FSYNC].add()

    return bpf


def snapshot(bpf: Any, options: Options) -> Iterator[Calls]:  # noqa: ARG001 - as every tool's
    """The interval's counts."""
    counts = dict(bpf["calls"].interval().items())
    yield Calls(bpf.elapsed(), *(counts.get(number, 0) for number in range(len(FUNCTIONS))))


def column(name: str) -> Column:
    """The calls a second; JSON and CSV have those of the interval."""

    def rate(row: Calls) -> float:
        return float(getattr(row, name)) / row.seconds

    return Column(f"{name.upper()}/s", 8, ">", key=rate, decimals=0, field=f"{name}s", value=name, type="int")


TOOL = SummaryTool(
    name="vfsstat",
    doc=__doc__,
    section="8.3.8",
    tracing="file system calls",
    options=Options,
    build=build,
    drop_labels={"calls": "calls", "syncing": "calls of fsync(2)"},
    snapshot=snapshot,
    record=Calls,
    screen=True,
    columns=tuple(column(name) for name in FUNCTIONS),
    examples=(
        Example("vfsstat", "each second, until Ctrl-C"),
        Example("vfsstat -C 10 6", "every ten seconds for a minute"),
        Example("vfsstat -p 181 --json", "of process 181, an object a second"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: vfsstat.open(pid=42)
