"""IP packets marked Congestion Encountered (ECN), coming in and going out: a line each.

A router, or this machine's own queueing discipline, marks a packet where it would otherwise have to drop it (RFC 3168).
Packets are seen at network devices: `in` when a device has received one, `out` when the driver gets it, behind the
queueing disciplines. One that passes several devices, such as a bridge and its port, has a line for each.

Overhead: one probe for each packet that a device receives or sends.
"""

from __future__ import annotations

from typing import Any

from pyebpf import BPF, KernelObject, cast, char, field, now, u16, u64
from pyebpf.filters import DeviceFilter
from pyebpf.programs._addresses import PacketAddresses
from pyebpf.tool import Column, DeviceOptions, EventTool, Example, VersionOptions, dataclass, flag

ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD
#: ETH_P_8021Q, ETH_P_8021AD: of a packet with a tag that the device does not take out or put in.
VLANS, VLAN_HEADER = (0x8100, 0x88A8), 4
#: The least of a header that must be there, contiguous, to be read.
IPV4_HEADER, IPV6_HEADER = 20, 40
#: Both bits of the field: Congestion Encountered.
CE = 3


class Mark(PacketAddresses):
    """A marked packet: when, nanoseconds of time.monotonic_ns(); where; from whom to whom."""

    outgoing: u16
    interface: str = field(char[16])
    time: u64

    @property
    def direction(self) -> str:
        """The packet's way, "in" or "out"."""
        return "out" if self.outgoing else "in"

    def as_dict(self) -> dict[str, Any]:
        """The fields by name; the addresses, as text, in place of those of each version."""
        return {
            "time": self.time,
            "direction": self.direction,
            "interface": self.interface,
            "version": self.version,
            "source": str(self.source),
            "destination": str(self.destination),
        }


@dataclass(frozen=True)
class Options(VersionOptions, DeviceOptions):
    """Options: which packets to report."""

    incoming: bool = flag("--in", help="only packets that come in")
    outgoing: bool = flag("--out", help="only packets that go out")


def build(options: Options) -> BPF:
    """The probes and their buffer; nothing is loaded yet."""
    bpf, devices = BPF(), DeviceFilter(options)
    marks = bpf.ringbuf(Mark, name="marks")

    def look(dev: KernelObject, protocol: int, at: int, left: int, outgoing: int) -> None:
        """Report a marked packet; the `left` bytes from the address `at` on are its IP header and what follows."""
        if 4 in options.versions and protocol == ETH_P_IP and left >= IPV4_HEADER:
            ip = cast("struct iphdr", at)
            if ip.tos & CE == CE and devices.wanted(dev):
                marks.emit(
                    Mark(
                        time=now(),
                        source4=ip.saddr,
                        destination4=ip.daddr,
                        version=4,
                        outgoing=outgoing,
                        interface=dev.name,
                        source6=bytes(16),
                        destination6=bytes(16),
                    )
                )
        elif 6 in options.versions and protocol == ETH_P_IPV6 and left >= IPV6_HEADER:
            ip6 = cast("struct ipv6hdr", at)
            # The traffic class is the last four bits of the first byte and the first four of the second.
            if ip6.flow_lbl[0] >> 4 & CE == CE and devices.wanted(dev):
                marks.emit(
                    Mark(
                        time=now(),
                        source4=0,
                        destination4=0,
                        version=6,
                        outgoing=outgoing,
                        interface=dev.name,
                        source6=ip6.saddr.in6_u.u6_addr8,
                        destination6=ip6.daddr.in6_u.u6_addr8,
                    )
                )

    if options.incoming or not options.outgoing:

        @bpf.btf_tracepoint("netif_receive_skb")
        def on_receive(skb: KernelObject) -> None:
            # The data begins at the network header, whose offset is set behind this tracepoint, or with a tag.
            protocol, at, left = skb.protocol, u64(skb.data), skb.len - skb.data_len
            if protocol in VLANS and left >= VLAN_HEADER:
                protocol = cast("struct vlan_hdr", at).h_vlan_encapsulated_proto
                at += VLAN_HEADER
                left -= VLAN_HEADER
            look(skb.dev, protocol, at, left, 0)

    if options.outgoing or not options.incoming:

        @bpf.btf_tracepoint("net_dev_start_xmit")
        def on_send(skb: KernelObject, dev: KernelObject) -> None:
            protocol, at = skb.protocol, u64(skb.head) + skb.network_header
            if protocol in VLANS:
                protocol = cast("struct vlan_hdr", at - VLAN_HEADER).h_vlan_encapsulated_proto
            look(dev, protocol, at, u64(skb.data) + (skb.len - skb.data_len) - at, 1)

    return bpf


TOOL = EventTool(
    name="ipecn",
    doc=__doc__,
    section="10.3.22",
    tracing="packets marked Congestion Encountered",
    options=Options,
    build=build,
    drop_labels={"marks": "packets"},
    record=Mark,
    columns=(
        Column("TIME", 8),
        Column("DIR", 3, key="direction"),
        Column("IFACE", 15, key="interface"),
        Column("IP", 2, key="version", field="ip_version"),
        Column("SADDR", 22, key="source", field="source_address", cut=False),
        Column("DADDR", key="destination", field="destination_address"),
    ),
    examples=(
        Example("ipecn", "every marked packet"),
        Example("ipecn --in -i eth0", "only those that come in through eth0"),
        Example("ipecn -6 --json -d 60", "IPv6 for a minute, an object a packet"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: ipecn.open(interface="eth0")
