"""Files that live briefly: a line for each that is deleted and was created since the start, with its age.

Overhead: a probe and a map operation for each file that is created, two for each that is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, KernelObject, Struct, array, char, comm, field, kernel_string, now, pid, u32, u64
from pyebpf.filters import TaskFilter
from pyebpf.programs._paths import LONGEST_PART, STEPS, mounted
from pyebpf.tool import Column, EventTool, Example, Stop, TaskOptions, dataclass, events_of, flag

if TYPE_CHECKING:
    from collections.abc import Iterator


class Deleted(Struct):
    """A file that was deleted at `time`, `age` nanoseconds after it was created; `comm` deleted it."""

    time: u64
    age: u64
    pid: u32
    comm: str = field(char[16])
    file: str = field(char[128])


class DeletedIn(Deleted):
    """One with the number of its file system's device, and the names of its directories, the innermost first.

    `reached` tells whether they end at the root of the file system.
    """

    device: u32
    reached: u32
    above: list[str] = field(array(char[LONGEST_PART], STEPS))


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which deletions to report."""

    full_path: bool = flag("-F", "--full-path", help="print the whole path")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    created = bpf.lru_hash(key=u64, value=u64, size=65_536)
    record: Any = DeletedIn if options.full_path else Deleted
    deleted = bpf.ringbuf(record, name="deleted")

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
        if not tasks.wanted():
            return
        file = dentry.d_name.name
        if options.full_path:
            each = DeletedIn(
                time=time,
                age=age,
                pid=pid(),
                comm=comm(),
                file=kernel_string(file),
                device=dentry.d_sb.s_dev,
                reached=0,
                above=[""] * STEPS,
            )
            climb(each, dentry)
            deleted.emit(each)
        else:
            deleted.emit(Deleted(time=time, age=age, pid=pid(), comm=comm(), file=kernel_string(file)))

    return bpf


def climb(each: DeletedIn, dentry: KernelObject) -> None:
    """In a probe: write down the names of the directories up to the root of the file system."""
    folder = dentry.d_parent
    for step in range(STEPS):
        if folder == folder.d_parent:
            each.reached = 1
            break
        each.above[step] = kernel_string(folder.d_name.name)
        folder = folder.d_parent


def deletions(bpf: BPF, options: Options, stop: Stop) -> Iterator[Deleted]:
    """Deletions as they come, with -F by the whole path."""
    for each in events_of("deleted", "time")(bpf, options, stop):
        if isinstance(each, DeletedIn):
            names = [*(name for name in reversed(each.above) if name), each.file]
            each.file = mounted(each.device, "/" + "/".join(names)) if each.reached else "/".join(["...", *names])
        yield each


TOOL = EventTool(
    name="filelife",
    doc=__doc__,
    section="8.3.7",
    tracing="files that are created and deleted",
    options=Options,
    build=build,
    drop_labels={"created": "files", "deleted": "files"},
    records=deletions,
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
        Example("filelife -F", "with the whole path"),
        Example("filelife --comm cc1 --json", "by name, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: filelife.open(pid=42)
