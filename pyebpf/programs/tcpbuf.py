"""Fill of TCP's buffers: for each port a histogram of the send buffers, and one of the receive buffers.

The fill is what a buffer holds in percent of its size, when a call that sent or received data returns. A send buffer
that is full makes the process wait for the network; a receive buffer that is full makes the other side wait for the
process. The port is the lower one of a connection's two, which is the service's as a rule.

Overhead: one map operation for each call that sends or receives over TCP, nothing for packets.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, u16
from pyebpf.endpoints import endpoints
from pyebpf.filters import SocketFilter, TaskFilter
from pyebpf.programs._tcp import IPPROTO_TCP
from pyebpf.programs._transfers import Transfers
from pyebpf.tool import Example, SocketOptions, SummaryTool, TaskOptions, dataclass, flag, histograms_of

SEND, RECEIVE = 0, 1
BUFFERS = ("send", "receive")


class Buffers(Struct):
    """Key of the histograms: the service's port, and which of the buffers."""

    port: u16
    buffer: u16


@dataclass(frozen=True)
class Options(SocketOptions, TaskOptions):
    """Options: which connections to measure, and how to show them."""

    sizes: bool = flag("-b", "--bytes", help="bytes in the buffers instead of percent of their sizes")


def build(options: Options) -> BPF:
    """The probes and histograms; nothing is loaded yet."""
    bpf, tasks, sockets = Transfers(IPPROTO_TCP), TaskFilter(options), SocketFilter(options)
    if options.sizes:
        fill = bpf.log2_hist(key=Buffers, unit="bytes", name="fill")
    else:
        percent = bpf.linear_hist(0, 100, 10, key=Buffers, unit="percent", name="fill")

    def measure(sk: KernelObject, buffer: int, held: int, size: int) -> None:
        if not tasks.wanted() or not sockets.wanted(ends := endpoints(sk)):
            return
        key = Buffers(port=min(ends.local_port, ends.remote_port), buffer=buffer)
        if options.sizes:
            fill[key].add(held)
        else:
            percent[key].add(held * 100 // max(size, 1))

    def on_sent(sk: KernelObject, size: int) -> None:  # noqa: ARG001 - as all of `Transfers`
        measure(sk, SEND, sk.sk_wmem_queued, sk.sk_sndbuf)

    def on_received(sk: KernelObject, size: int) -> None:  # noqa: ARG001 - as all of `Transfers`
        measure(sk, RECEIVE, sk.sk_backlog.rmem_alloc.counter, sk.sk_rcvbuf)

    bpf.sent, bpf.received = on_sent, on_received
    return bpf


TOOL = SummaryTool(
    name="tcpbuf",
    doc=__doc__,
    tracing="TCP's buffers",
    options=Options,
    build=build,
    drop_labels={"fill": "calls on further ports"},
    snapshot=histograms_of("fill", by_key=True, buffer=BUFFERS.__getitem__),
    examples=(
        Example("tcpbuf", "histograms by port, at the end"),
        Example("tcpbuf -L 443 10", "of this local port, every ten seconds"),
        Example("tcpbuf -b -p 181", "bytes, of process 181"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpbuf.open(local_ports=(443,))
