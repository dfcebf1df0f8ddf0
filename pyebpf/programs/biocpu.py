"""Completions of block I/O by processor, as a linear histogram.

A request counts on the processor that completes it: the one that the device's interrupt came to, or that of the
request's own queue. One that completes in parts counts once, at its last part.

Overhead: an addition for each request.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, cpu, field
from pyebpf.programs._block import disk_of, disk_option, is_done, is_wanted
from pyebpf.tool import Example, SummaryTool, dataclass, flag, histograms_of

#: Processors with rows of their own; any more share one.
PROCESSORS = 1024


class Disk(Struct):
    """Key of the histograms by disk."""

    disk: str = field(char[32])


@dataclass(frozen=True)
class Options:
    """Options: which requests to count, and how to group them."""

    by_disk: bool = flag("-D", "--disks", help="a histogram for each disk")
    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probe and its map; nothing is loaded yet."""
    bpf = BPF()
    if options.by_disk:
        by_disk = bpf.linear_hist(0, PROCESSORS, key=Disk, unit="cpu", name="completions", size=256)
    else:
        overall = bpf.linear_hist(0, PROCESSORS, unit="cpu", name="completions")

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, nr_bytes: int) -> None:
        if not is_done(rq, nr_bytes) or not is_wanted(rq, options.disk):
            return
        if options.by_disk:
            by_disk[Disk(disk=disk_of(rq).disk_name)].add(cpu())
        else:
            overall.add(cpu())

    return bpf


TOOL = SummaryTool(
    name="biocpu",
    doc=__doc__,
    tracing="completions of block I/O",
    options=Options,
    build=build,
    drop_labels={"completions": "requests of further disks"},
    snapshot=histograms_of("completions"),
    examples=(
        Example("biocpu", "one histogram, at the end"),
        Example("biocpu -D 10", "for each disk, every ten seconds"),
        Example("biocpu --disk sda --csv -d 60", "of one disk, for a minute"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biocpu.open(by_disk=True)
