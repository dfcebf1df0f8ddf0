"""Block I/O that timed out: a line for each request that the device did not answer in time.

The kernel gives a request up after the queue's io_timeout, and asks the driver what to do. A line comes when the
request is to be issued again (requeued), or has ended after all: with an error, ETIMEDOUT or another, or without one.
WAIT(ms) is the time since the request was made, so that of earlier tries is in it.

Overhead: a comparison for each request, and a line for each that timed out.
"""

from __future__ import annotations

import errno

from pyebpf import BPF, KernelObject, enum, has_enum, s32
from pyebpf.programs._block import disk_option, is_wanted
from pyebpf.programs._block_errors import REQUEST, Ended, ended
from pyebpf.tool import Column, EventTool, Example, dataclass

#: BLK_STS_TIMEOUT, and the number that it was before.
TIMEOUTS = (2, -errno.ETIMEDOUT)
#: RQF_TIMED_OUT of include/linux/blk-mq.h (blkdev.h): a constant, an enumerator in newer kernels.
TIMED_OUT = 1 << 21


@dataclass(frozen=True)
class Options:
    """Options: which requests to report."""

    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probes and their buffer; nothing is loaded yet."""
    bpf = BPF()
    timeouts = bpf.ringbuf(Ended, name="timeouts")

    def timed_out(rq: KernelObject) -> bool:
        mask = 1 << enum("__RQF_TIMED_OUT") if has_enum("__RQF_TIMED_OUT") else TIMED_OUT
        return bool(rq.rq_flags & mask)

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, error: int, nr_bytes: int) -> None:
        if (s32(error) in TIMEOUTS or timed_out(rq)) and is_wanted(rq, options.disk):
            timeouts.emit(ended(rq, error, nr_bytes, 0))

    @bpf.btf_tracepoint("block_rq_requeue")
    def on_requeue(rq: KernelObject) -> None:
        if timed_out(rq) and is_wanted(rq, options.disk):
            timeouts.emit(ended(rq, 0, rq.__data_len, 1))

    return bpf


def outcome(request: Ended) -> str:
    """How it went on."""
    return "requeued" if request.requeued else "failed" if request.error else "completed"


TOOL = EventTool(
    name="biotimeout",
    doc=__doc__,
    tracing="block I/O timeouts",
    options=Options,
    build=build,
    drop_labels={"timeouts": "requests that timed out"},
    record=Ended,
    columns=(
        *REQUEST,
        Column("WAIT(ms)", 9, ">", key="waited", scale=10**6, decimals=0, field="wait_ns", drawn=True),
        Column("OUTCOME", 9, key=outcome, field="outcome"),
        Column("ERROR"),
    ),
    examples=(
        Example("biotimeout", "every request that times out"),
        Example("biotimeout --disk sda", "those of one disk"),
        Example("biotimeout --json -d 3600", "for an hour, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biotimeout.open(disk="sda")
