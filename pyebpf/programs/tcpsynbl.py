"""Length of TCP's accept queue as connections complete: a histogram for each limit, and a line for each drop.

The queue (listen(2)'s backlog) holds connections that are established and wait for accept(2). Its length is taken when
the last packet of a handshake (an ACK) comes in. A SYN or such an ACK that finds more in the queue than its limit is
dropped by the kernel, which counts it as ListenOverflows (`nstat`), and is printed with the time, the remote and the
local end. ACKs that were dropped are in the histograms, too.

Overhead: one probe for each SYN, one probe and one count for each connection that is completed.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, cast, char, field, now, u32, u64
from pyebpf.endpoints import AF_INET, AF_INET6, Endpoints, endpoints
from pyebpf.programs._tcp import local_end, remote_end
from pyebpf.tool import Column, EventLines, Example, SummaryTool, VersionOptions, ends_columns, histograms_of

ETH_P_IP = 0x0800
#: An IPv4 address as IPv6 addresses stand for it, in the lower half.
MAPPED = 0xFFFF << 32


class Drop(Struct):
    """A `packet` ("SYN" or "ACK") of a handshake, dropped since the queue had `length` connections, above `limit`."""

    time: u64
    limit: u32
    length: u32
    packet: str = field(char[4])
    ends: Endpoints


def build(options: VersionOptions) -> BPF:
    """The probes, the histograms and the buffer; nothing is loaded yet."""
    bpf = BPF()
    backlog = bpf.log2_hist(key=u32, label="backlog limit", unit="connections", name="backlog")
    drops = bpf.ringbuf(Drop, name="drops")

    def handshake(sk: KernelObject, req: KernelObject) -> None:
        limit, length = sk.sk_max_ack_backlog, sk.sk_ack_backlog
        backlog[limit].add(length)
        if length > limit:
            # A request begins as a socket does, and has both ends of the connection to be.
            ends = endpoints(cast("struct sock", req))
            drops.emit(Drop(time=now(), limit=limit, length=length, packet="ACK", ends=ends))

    if 4 in options.versions:

        @bpf.function("tcp_v4_syn_recv_sock")
        def on_handshake(sk: KernelObject, req: KernelObject) -> None:
            handshake(sk, req)

    if 6 in options.versions:
        # For a connection over IPv4 to a socket of IPv6 it calls the other.
        @bpf.function("tcp_v6_syn_recv_sock", optional=True)
        def on_handshake6(sk: KernelObject, skb: KernelObject, req: KernelObject) -> None:
            if skb.protocol != ETH_P_IP:
                handshake(sk, req)

    # A SYN that finds the queue full does not get as far as these.
    @bpf.function("tcp_conn_request")
    def on_syn(sk: KernelObject, skb: KernelObject) -> None:
        limit, length = sk.sk_max_ack_backlog, sk.sk_ack_backlog
        if length <= limit or (options.version is not None and (skb.protocol == ETH_P_IP) != (options.version == 4)):
            return
        tcp = cast("struct tcphdr", u64(skb.head) + skb.transport_header)
        ends = Endpoints(
            local_high=0,
            local_low=0,
            remote_high=0,
            remote_low=0,
            local_port=tcp.dest,
            remote_port=tcp.source,
            family=AF_INET6,
        )
        if skb.protocol == ETH_P_IP:
            ip = cast("struct iphdr", u64(skb.head) + skb.network_header)
            ends.family = AF_INET
            ends.local_low = MAPPED | ip.daddr
            ends.remote_low = MAPPED | ip.saddr
        else:
            ip6 = cast("struct ipv6hdr", u64(skb.head) + skb.network_header)
            local, remote = ip6.daddr.in6_u.u6_addr32, ip6.saddr.in6_u.u6_addr32
            ends.local_high = local[0] << 32 | local[1]
            ends.local_low = local[2] << 32 | local[3]
            ends.remote_high = remote[0] << 32 | remote[1]
            ends.remote_low = remote[2] << 32 | remote[3]
        drops.emit(Drop(time=now(), limit=limit, length=length, packet="SYN", ends=ends))

    return bpf


def sentence(drop: Drop) -> str:
    """A line for a drop, behind the time."""
    ends = f"{remote_end(drop)} -> {local_end(drop)}"
    return f"{drop.packet} dropped, {ends}: {drop.length} in the queue, limit {drop.limit}"


TOOL = SummaryTool(
    name="tcpsynbl",
    doc=__doc__,
    section="10.3.17",
    tracing="the backlog of TCP listeners",
    options=VersionOptions,
    build=build,
    drop_labels={"backlog": "handshakes at other limits", "drops": "drops"},
    snapshot=histograms_of("backlog", by_key=True),
    lines=EventLines(
        record=Drop,
        columns=(
            Column("TIME", 8),
            Column("PACKET"),
            *ends_columns(remote_first=True),
            Column("LENGTH"),
            Column("LIMIT"),
        ),
        sentence=sentence,
    ),
    examples=(
        Example("tcpsynbl", "a line a drop, histograms when Ctrl-C ends it"),
        Example("tcpsynbl 10", "histograms every ten seconds"),
        Example("tcpsynbl -6", "only connections over IPv6"),
        Example("tcpsynbl -T 1 5", "each second with the time, five times"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpsynbl.open()
