"""Sizes of block I/O as a histogram for each process, in bytes.

A request counts when it is issued to the device, for the thread that runs: the process that asked for it, or a thread
of the kernel that writes for others, or that issues what waited in a queue. Requests that were merged count as one, and
one that is issued again counts again. A flush of the device's cache has no bytes.

Overhead: one map operation for each request.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, comm, field
from pyebpf.filters import TaskFilter
from pyebpf.programs._block import disk_option, is_wanted
from pyebpf.tool import Example, SummaryTool, comm_option, dataclass, histograms_of, pid_option


class Key(Struct):
    """Key of a histogram: the name of the thread that issued the request."""

    comm: str = field(char[16])


@dataclass(frozen=True)
class Options:
    """Options: which requests to count."""

    pid: int | None = pid_option()
    comm: str | None = comm_option()
    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probe and its map; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    sizes = bpf.log2_hist(key=Key, unit="bytes", name="sizes")

    @bpf.btf_tracepoint("block_rq_issue")
    def on_issue(rq: KernelObject) -> None:
        if tasks.wanted() and is_wanted(rq, options.disk):
            sizes[Key(comm=comm())].add(rq.__data_len)

    return bpf


TOOL = SummaryTool(
    name="bitesize",
    doc=__doc__,
    section="9.3.4",
    tracing="block I/O sizes",
    options=Options,
    build=build,
    drop_labels={"sizes": "requests of further processes"},
    snapshot=histograms_of("sizes"),
    examples=(
        Example("bitesize", "a histogram a process, at the end"),
        Example("bitesize 10", "every ten seconds"),
        Example("bitesize --disk sda --json -d 60", "of one disk, for a minute"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: bitesize.open(pid=42)
