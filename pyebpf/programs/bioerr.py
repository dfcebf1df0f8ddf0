"""Block I/O that failed: a line for each completion with an error, which it names.

The error is the kernel's, as the process gets it, or a file system: EIO for most, ENODATA for a bad medium, ENOSPC,
ETIMEDOUT, EREMOTEIO for what the device rejects. What is tried again and then succeeds is no line. Requests that the
kernel merged fail as one. SECTOR is the first sector of the part that failed, BYTES its size.

Overhead: a comparison for each request, and a line for each that fails.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject
from pyebpf.programs._block import disk_option, is_wanted
from pyebpf.programs._block_errors import REQUEST, Ended, ended
from pyebpf.tool import Column, EventTool, Example, dataclass


@dataclass(frozen=True)
class Options:
    """Options: which requests to report."""

    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf = BPF()
    failures = bpf.ringbuf(Ended, name="failures")

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, error: int, nr_bytes: int) -> None:
        if error != 0 and is_wanted(rq, options.disk):
            failures.emit(ended(rq, error, nr_bytes, 0))

    return bpf


TOOL = EventTool(
    name="bioerr",
    doc=__doc__,
    section="9.3.8",
    tracing="block I/O errors",
    options=Options,
    build=build,
    drop_labels={"failures": "requests that failed"},
    record=Ended,
    columns=(
        *REQUEST,
        Column("ERROR"),
    ),
    examples=(
        Example("bioerr", "every request that fails"),
        Example("bioerr --disk sda", "those of one disk"),
        Example("bioerr --json -d 3600", "for an hour, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: bioerr.open(disk="sda")
