"""Length of TCP's accept queue as connections complete: a histogram for each limit, and a line for each drop.

The queue (listen(2)'s backlog) holds connections that are established and wait for accept(2). Its length is taken when
the last packet of a handshake (an ACK) comes in. A SYN or such an ACK that finds more in the queue than its limit is
dropped by the kernel, which counts it as ListenOverflows (`nstat`), and is printed with the time, the remote and the
local end. ACKs that were dropped are in the histograms, too.

Overhead: one probe for each SYN, one probe and one count for each connection that is completed.
"""

from __future__ import annotations

from time import strftime
from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, Struct, array, cast, char, field, u8, u16, u32, u64
from pyebpf.programs._addresses import endpoint, ip_address
from pyebpf.tool import Column, EventLines, Example, Histogram, Stop, SummaryTool, dataclass, events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address, IPv6Address

__all__ = ["TOOL", "Drop", "Options", "build", "open"]

ETH_P_IP = 0x0800


class Dropped(Struct):
    """A drop as the kernel's side reports it; IPv4 addresses as numbers."""

    limit: u32
    length: u32
    local4: u32
    remote4: u32
    local_port: u16
    remote_port: u16
    version: u16
    packet: str = field(char[4])
    local6: bytes = field(array(u8, 16))
    remote6: bytes = field(array(u8, 16))


@dataclass(frozen=True)
class Drop:
    """A `packet` ("SYN" or "ACK") of a handshake, dropped since the queue had `length` connections, above `limit`."""

    packet: str
    limit: int
    length: int
    local: IPv4Address | IPv6Address
    local_port: int
    remote: IPv4Address | IPv6Address
    remote_port: int


@dataclass(frozen=True)
class Options:
    """There is nothing to choose."""


def build(options: Options) -> BPF:  # noqa: ARG001 - as every tool's
    """The probes, the histograms and the buffer; nothing is loaded yet."""
    bpf = BPF()
    backlog = bpf.log2_hist(key=u32, label="backlog limit", unit="connections", name="backlog")
    drops = bpf.ringbuf(Dropped, name="drops")

    def handshake(version: int, sk: KernelObject, req: KernelObject) -> None:
        limit, length = sk.sk_max_ack_backlog, sk.sk_ack_backlog
        backlog[limit].add(length)
        if length > limit:
            common = req.__req_common
            drops.emit(
                Dropped(
                    limit=limit,
                    length=length,
                    local4=common.skc_rcv_saddr,
                    remote4=common.skc_daddr,
                    local_port=common.skc_num,
                    remote_port=common.skc_dport,
                    version=version,
                    packet="ACK",
                    local6=common.skc_v6_rcv_saddr.in6_u.u6_addr8,
                    remote6=common.skc_v6_daddr.in6_u.u6_addr8,
                )
            )

    @bpf.function("tcp_v4_syn_recv_sock")
    def on_handshake(sk: KernelObject, req: KernelObject) -> None:
        handshake(4, sk, req)

    # For a connection over IPv4 to a socket of IPv6 it calls the other.
    @bpf.function("tcp_v6_syn_recv_sock", optional=True)
    def on_handshake6(sk: KernelObject, skb: KernelObject, req: KernelObject) -> None:
        if skb.protocol != ETH_P_IP:
            handshake(6, sk, req)

    # A SYN that finds the queue full does not get as far as these.
    @bpf.function("tcp_conn_request")
    def on_syn(sk: KernelObject, skb: KernelObject) -> None:
        limit, length = sk.sk_max_ack_backlog, sk.sk_ack_backlog
        if length <= limit:
            return
        tcp = cast("struct tcphdr", u64(skb.head) + skb.transport_header)
        drop = Dropped(
            limit=limit,
            length=length,
            local4=0,
            remote4=0,
            local_port=tcp.dest,
            remote_port=tcp.source,
            version=4,
            packet="SYN",
            local6=bytes(16),
            remote6=bytes(16),
        )
        if skb.protocol == ETH_P_IP:
            ip = cast("struct iphdr", u64(skb.head) + skb.network_header)
            drop.local4 = ip.daddr
            drop.remote4 = ip.saddr
        else:
            ip6 = cast("struct ipv6hdr", u64(skb.head) + skb.network_header)
            drop.version = 6
            drop.local6 = ip6.daddr.in6_u.u6_addr8
            drop.remote6 = ip6.saddr.in6_u.u6_addr8
        drops.emit(drop)

    return bpf


def snapshot(bpf: BPF, options: Options) -> Iterator[Histogram]:  # noqa: ARG001 - as every tool's
    """The interval's histograms, by limit."""
    interval = bpf["backlog"].interval()
    yield from (interval[limit] for limit in sorted(interval))


def drops(bpf: BPF, options: Options, stop: Stop) -> Iterator[Drop]:  # noqa: ARG001 - as every tool's
    """Drops as they happen."""
    for found in events(bpf["drops"], stop):
        local = ip_address(found.version, found.local4, found.local6)
        remote = ip_address(found.version, found.remote4, found.remote6)
        yield Drop(found.packet, found.limit, found.length, local, found.local_port, remote, found.remote_port)


def sentence(drop: Drop) -> str:
    """A line for a drop, behind the time."""
    ends = (endpoint(drop.remote, drop.remote_port), endpoint(drop.local, drop.local_port))
    return f"{drop.packet} dropped, {ends[0]} -> {ends[1]}: {drop.length} in the queue, limit {drop.limit}"


TOOL = SummaryTool(
    name="tcpsynbl",
    doc=__doc__,
    section="10.3.17",
    tracing="the backlog of TCP listeners",
    options=Options,
    build=build,
    drop_labels={"backlog": "handshakes at other limits", "drops": "drops"},
    snapshot=snapshot,
    lines=EventLines(
        records=drops,
        columns=(
            Column("TIME", 8, key=lambda _: strftime("%H:%M:%S")),
            Column("PACKET"),
            Column("RADDR", key="remote"),
            Column("RPORT", key="remote_port"),
            Column("LADDR", key="local"),
            Column("LPORT", key="local_port"),
            Column("LENGTH"),
            Column("LIMIT"),
        ),
        sentence=sentence,
    ),
    examples=(
        Example("tcpsynbl", "a line a drop, histograms when Ctrl-C ends it"),
        Example("tcpsynbl 10", "histograms every ten seconds"),
        Example("tcpsynbl -T 1 5", "each second with the time, five times"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpsynbl.open()
