"""Reads and writes by the file's type and the process: files, sockets, pipes, devices.

Counts the functions vfs_read and vfs_write, which serve read(2), write(2), pread(2) and pwrite(2).

Overhead: a probe and a map operation for each of these calls; there may be a million a second.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, comm, field, u32
from pyebpf.filters import TaskFilter
from pyebpf.tool import Column, Example, SummaryTool, TaskOptions, counts_of, dataclass

#: include/uapi/linux/stat.h: the upper four bits of a mode.
TYPES = {1: "fifo", 2: "character", 4: "directory", 6: "block", 8: "regular", 10: "link", 12: "socket"}
READ, WRITE = 0, 1


class Key(Struct):
    """Key of the counts: the type of the file, and who does what."""

    type: u32
    direction: u32
    comm: str = field(char[16])

    @property
    def operation(self) -> str:
        """The call: read or write."""
        return "write" if self.direction == WRITE else "read"


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which processes to count."""


def build(options: Options) -> BPF:
    """The probes and the counts; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    calls = bpf.counter(key=Key, name="calls")

    def count(direction: int, file: KernelObject) -> None:
        if tasks.wanted():
            calls[Key(type=file.f_inode.i_mode >> 12, direction=direction, comm=comm())].add()

    @bpf.function("vfs_read")
    def on_read(file: KernelObject) -> None:
        count(READ, file)

    @bpf.function("vfs_write")
    def on_write(file: KernelObject) -> None:
        count(WRITE, file)

    return bpf


def type_name(number: int) -> str:
    """The name of a type; of the kernel's nameless files, such as those of epoll(7), "other"."""
    return TYPES.get(number, "other")


TOOL = SummaryTool(
    name="filetype",
    doc=__doc__,
    section="8.3.15",
    tracing="reads and writes",
    options=Options,
    build=build,
    drop_labels={"calls": "calls of other processes"},
    snapshot=counts_of("calls", type=type_name),
    columns=(
        Column("TYPE", 10, field="file_type", type="str"),
        Column("OP", 5, key="operation", type="str"),
        Column("COMM", 16, type="str"),
        Column("COUNT", 8, ">", type="int"),
    ),
    examples=(
        Example("filetype", "counts when Ctrl-C ends it"),
        Example("filetype 10", "every ten seconds"),
        Example("filetype --comm postgres --json", "of processes with this name"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: filetype.open(pid=42)
