"""Time network devices take to transmit packets, as a histogram.

The time runs from the call of the driver until the driver frees the packet, when the device has sent it. Only devices
with hardware behind them (in a virtual machine, what it takes for hardware) are timed: loopback, veth, bridges and
tunnels hand packets on instead of freeing them. --all times those as well, as far as they free packets: dummies, taps.

Overhead: two probes and two map operations for each packet sent, one probe for each other packet that is freed.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, char
from pyebpf.filters import DeviceFilter
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.tool import ByDeviceOptions, Example, LatencyOptions, SummaryTool, dataclass, flag, histograms_of


@dataclass(frozen=True)
class Options(LatencyOptions, ByDeviceOptions):
    """Options: which devices, and how to show their time."""

    all: bool = flag("-a", "--all", help="devices without hardware, too")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, devices = BPF(), DeviceFilter(options)
    # Some devices hand a packet on, to whoever frees it without a word.
    packets = InFlight(bpf, name="packets", oldest_first=True)
    latency = LatencyHistogram(bpf, options, key=char[16] if options.by_device else None, label="device")

    @bpf.btf_tracepoint("net_dev_start_xmit")
    def on_start(skb: KernelObject, dev: KernelObject) -> None:
        if (options.all or dev.dev.parent is not None) and devices.wanted(dev):
            packets.start(skb)

    @bpf.btf_tracepoint("consume_skb")
    def on_freed(skb: KernelObject) -> None:
        latency.add(packets.end(skb), skb.dev.name if options.by_device else None)

    # Neither a packet that is dropped nor one that came in through a device without hardware has been sent.
    @bpf.btf_tracepoint("kfree_skb")
    def on_dropped(skb: KernelObject) -> None:
        packets.cancel(skb)

    if options.all:

        @bpf.btf_tracepoint("netif_receive_skb")
        def on_received(skb: KernelObject) -> None:
            packets.cancel(skb)

    return bpf


TOOL = SummaryTool(
    name="nettxlat",
    doc=__doc__,
    section="10.3.27",
    tracing="the transmission of packets",
    options=Options,
    build=build,
    drop_labels={"packets": "packets under way", "latency": "packets of further devices"},
    snapshot=histograms_of("latency"),
    examples=(
        Example("nettxlat", "one histogram when Ctrl-C ends it"),
        Example("nettxlat --devices 1 10", "by device, each second, ten times"),
        Example("nettxlat -m -i eth0 --json", "of one interface, in milliseconds"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: nettxlat.open(by_device=True)
