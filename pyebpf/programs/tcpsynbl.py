"""Length of TCP's accept queue as connections complete, a histogram for each limit, and those that are dropped.

The queue (listen(2)'s backlog) holds connections that are established and wait for accept(2). Its length is taken when
the last packet of a handshake comes in; where it is above the limit by then, the connection is dropped, and counted in
a histogram of its own: "dropped = yes".

Overhead: one probe and one count for each connection that is completed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, Struct, u32
from pyebpf.tool import Example, Histogram, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TOOL", "Options", "build", "open"]


class Queue(Struct):
    """Key of the histograms: the limit of a queue, and whether the connection was dropped."""

    limit: u32
    dropped: u32


@dataclass(frozen=True)
class Options:
    """There is nothing to choose."""


def build(options: Options) -> BPF:  # noqa: ARG001 - as every tool's
    """The probe and the histograms; nothing is loaded yet."""
    bpf = BPF()
    backlog = bpf.log2_hist(key=Queue, unit="connections", name="backlog")

    @bpf.function("tcp_v4_syn_recv_sock", "tcp_v6_syn_recv_sock", optional=True)
    def on_handshake(sk: KernelObject) -> None:
        limit, length = sk.sk_max_ack_backlog, sk.sk_ack_backlog
        backlog[Queue(limit=limit, dropped=length > limit)].add(length)

    return bpf


def snapshot(bpf: BPF, options: Options) -> Iterator[Histogram]:  # noqa: ARG001 - as every tool's
    """The interval's histograms, by limit; drops after the others."""
    for queue, histogram in sorted(
        bpf["backlog"].interval().items(), key=lambda item: (item[0].limit, item[0].dropped)
    ):
        labels: dict[str, object] = {"backlog limit": queue.limit, "dropped": "yes" if queue.dropped else "no"}
        yield Histogram(histogram.buckets, histogram.unit, histogram.kind, labels)


TOOL = SummaryTool(
    name="tcpsynbl",
    doc=__doc__,
    section="10.3.17",
    tracing="the backlog of TCP listeners",
    options=Options,
    build=build,
    snapshot=snapshot,
    examples=(
        Example("tcpsynbl", "histograms when Ctrl-C ends it"),
        Example("tcpsynbl 10", "every ten seconds"),
        Example("tcpsynbl -T 1 5", "each second with the time, five times"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpsynbl.open()
