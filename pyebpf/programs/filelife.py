"""Files that live briefly: a line for each that is deleted and was created since the start, with its age.

Overhead: a probe and a map operation for each file that is created, two for each that is deleted.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, comm, field, kernel_string, now, pid, u32, u64
from pyebpf.filters import TaskFilter
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, events_of


class Deleted(Struct):
    """A file that was deleted at `time`, `age` nanoseconds after it was created; `comm` deleted it."""

    time: u64
    age: u64
    pid: u32
    comm: str = field(char[16])
    file: str = field(char[128])


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which deletions to report."""


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    created = bpf.lru_hash(key=u64, value=u64, size=65_536)
    deleted = bpf.ringbuf(Deleted, name="deleted")

    # Also of files that open(2) creates, which vfs_create() has nothing to do with.
    @bpf.function("security_inode_create")
    def on_create(dentry: KernelObject) -> None:
        created[dentry] = now()

    @bpf.call("vfs_unlink")
    def on_unlink(dentry: KernelObject, retval: int) -> None:
        began = created.get(dentry)
        if began is None or retval != 0:
            return
        time, age = now(), now() - began
        del created[dentry]
        if tasks.wanted():
            file = dentry.d_name.name
            deleted.emit(Deleted(time=time, age=age, pid=pid(), comm=comm(), file=kernel_string(file)))

    return bpf


TOOL = EventTool(
    name="filelife",
    doc=__doc__,
    section="8.3.7",
    tracing="files that are created and deleted",
    options=Options,
    build=build,
    drop_labels={"created": "files", "deleted": "files"},
    records=events_of("deleted", "time"),
    record=Deleted,
    time="time",
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("COMM", 16),
        Column("AGE(s)", 8, ">", key="age", scale=1_000_000_000, decimals=2, field="age_ns", drawn=True),
        Column("FILE"),
    ),
    examples=(
        Example("filelife", "every file that is created and deleted"),
        Example("filelife -p 181", "those that process 181 deletes"),
        Example("filelife --comm cc1 --json", "by name, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: filelife.open(pid=42)
