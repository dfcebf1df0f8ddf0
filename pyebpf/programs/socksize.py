"""Sizes of socket I/O: histograms of bytes by process, of reads and of writes.

Counts each message that a process receives (read) or sends (write), by whatever system call. Calls that fail are not
counted; 0 bytes are an empty message, or the end of a stream.

Overhead: a probe and a map operation for each message.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, comm, field, u16
from pyebpf.filters import TaskFilter
from pyebpf.programs._messages import Messages, direction_name
from pyebpf.tool import Example, SummaryTool, TaskOptions, histograms_of


class Key(Struct):
    """Key of a histogram: the process's name, and the direction."""

    direction: u16
    comm: str = field(char[16])


def build(options: TaskOptions) -> BPF:
    """The probes and the histograms; nothing is loaded yet."""
    bpf, tasks = Messages(), TaskFilter(options)
    sizes = bpf.log2_hist(key=Key, unit="bytes", name="sizes")

    def count(direction: int, _sk: KernelObject, size: int) -> None:
        if size >= 0 and tasks.wanted():
            sizes[Key(direction=direction, comm=comm())].add(size)

    bpf.trace(count)
    return bpf


TOOL = SummaryTool(
    name="socksize",
    doc=__doc__,
    section="10.3.7",
    tracing="socket I/O sizes",
    options=TaskOptions,
    build=build,
    drop_labels={"sizes": "messages of other processes"},
    snapshot=histograms_of("sizes", direction=direction_name),
    examples=(
        Example("socksize", "histograms when Ctrl-C ends it"),
        Example("socksize 10", "every ten seconds"),
        Example("socksize --comm nginx", "of processes with nginx in their names"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: socksize.open(pid=42)
