"""Latency between TCP and the network device: the time that a segment takes through IP and the queueing discipline.

It runs from TCP's handing over of a segment (__tcp_transmit_skb) until the device's driver gets it
(net:net_dev_start_xmit), with IP, netfilter and all queues in between. Segments that never reach a device are not
counted, and of one that the kernel splits in software, nothing is.

Overhead: two probes and two map operations for each segment that TCP sends, and a probe for each other packet.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, u64
from pyebpf.endpoints import endpoints
from pyebpf.filters import SocketFilter
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.tool import Example, SocketOptions, SummaryTool, dataclass, flag, histograms_of, milliseconds_option


@dataclass(frozen=True)
class Options(SocketOptions):
    """Options: which connections to measure, and in which unit."""

    milliseconds: bool = milliseconds_option()
    nanoseconds: bool = flag("-n", "--nanoseconds", help="nanoseconds instead of microseconds")


def build(options: Options) -> BPF:
    """The probes and the histogram; nothing is loaded yet."""
    bpf, sockets = BPF(), SocketFilter(options)
    latency = LatencyHistogram(bpf, options)
    # What is dropped on the way does not end.
    segments = InFlight(bpf, name="segments", oldest_first=True)

    # TCP sends a clone of a segment with data, which it keeps: another sk_buff, but the same memory for the packet.
    @bpf.function("__tcp_transmit_skb")
    def on_segment(sk: KernelObject, skb: KernelObject) -> None:
        if sockets.wanted(endpoints(sk)):
            segments.start(u64(skb.head))

    @bpf.btf_tracepoint("net_dev_start_xmit")
    def on_device(skb: KernelObject) -> None:
        latency.add(segments.end(u64(skb.head)))

    return bpf


TOOL = SummaryTool(
    name="tcpiplat",
    doc=__doc__,
    tracing="TCP segments to their devices",
    options=Options,
    build=build,
    drop_labels={"segments": "segments under way", "latency": "segments"},
    snapshot=histograms_of("latency"),
    examples=(
        Example("tcpiplat", "one histogram, at the end"),
        Example("tcpiplat -n 1 10", "nanoseconds, each second, ten times"),
        Example("tcpiplat -D 443 --json", "to this remote port, as JSON"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpiplat.open(remote_ports=(443,))
