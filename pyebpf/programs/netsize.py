"""Sizes of packets where the kernel hands them to network devices and gets them back, as four histograms.

The device's sizes, nic_send_bytes and nic_recv_bytes, are those that drivers see. The stack's sizes, send_bytes and
recv_bytes, are those before the kernel splits a packet (GSO) and after it has joined several (GRO). A driver that
splits packets in hardware (TSO) gets them whole. Devices that do without GRO, such as loopback, have no nic_recv_bytes.
Received sizes do not count the link layer's header, sent ones do.

Overhead: one probe and a count in a histogram at each of the four places that a packet passes.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, field, u32
from pyebpf.filters import DeviceFilter
from pyebpf.tool import ByDeviceOptions, Example, SummaryTool, histograms_of

#: The book's names of the histograms, in the order of a packet's way in and out.
NIC_RECEIVE, RECEIVE, SEND, NIC_SEND = range(4)
NAMES = ("nic_recv_bytes", "recv_bytes", "send_bytes", "nic_send_bytes")
#: include/linux/netdevice.h: the driver has no room; the packet comes again.
NETDEV_TX_BUSY = 0x10


class Kind(Struct):
    """Key of the histograms; `device` is empty where they are not told apart by it."""

    device: str = field(char[16])
    size: u32


def build(options: ByDeviceOptions) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, devices = BPF(), DeviceFilter(options)
    sizes = bpf.log2_hist(key=Kind, unit="bytes", name="sizes")

    def count(place: int, dev: KernelObject, length: int) -> None:
        if devices.wanted(dev):
            sizes[Kind(device=dev.name if options.by_device else "", size=place)].add(length)

    @bpf.btf_tracepoint("napi_gro_receive_entry", "napi_gro_frags_entry")
    def on_device_receive(skb: KernelObject) -> None:
        count(NIC_RECEIVE, skb.dev, skb.len)

    @bpf.btf_tracepoint("netif_receive_skb")
    def on_receive(skb: KernelObject) -> None:
        count(RECEIVE, skb.dev, skb.len)

    @bpf.btf_tracepoint("net_dev_queue")
    def on_send(skb: KernelObject) -> None:
        count(SEND, skb.dev, skb.len)

    # The driver may have freed the packet already; the kernel kept its length.
    @bpf.btf_tracepoint("net_dev_xmit")
    def on_device_send(rc: int, dev: KernelObject, skb_len: int) -> None:
        if rc != NETDEV_TX_BUSY:
            count(NIC_SEND, dev, skb_len)

    return bpf


TOOL = SummaryTool(
    name="netsize",
    doc=__doc__,
    section="10.3.26",
    tracing="packet sizes",
    options=ByDeviceOptions,
    build=build,
    drop_labels={"sizes": "packets of further devices"},
    snapshot=histograms_of("sizes", by_key=True, device=lambda name: name or None, size=NAMES.__getitem__),
    examples=(
        Example("netsize", "four histograms when Ctrl-C ends it"),
        Example("netsize --devices 1 10", "by device, each second, ten times"),
        Example("netsize -i eth0 --json 5", "of one interface, each five seconds"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: netsize.open(interface="eth0")
