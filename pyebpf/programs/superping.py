"""ICMP echo latency as the kernel sees it, for every ping on the machine, IPv4 and IPv6.

The time runs from the network layer's output of a request until it receives the reply, without the delays of the ping
program and its scheduling. Requests of raw sockets and of ping sockets are seen.

Overhead: one probe and a check of the protocol for each packet that the machine sends; a map operation for each ping.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, cast, now, u16, u64
from pyebpf.tool import Column, EventTool, Example, dataclass, option

#: include/uapi/linux/in.h, icmp.h, icmpv6.h
IPPROTO_ICMP, IPPROTO_ICMPV6 = 1, 58
ICMP_ECHO, ICMP_ECHOREPLY = 8, 0
ICMPV6_ECHO_REQUEST, ICMPV6_ECHO_REPLY = 128, 129


class Echo(Struct):
    """Key that a reply shares with its request."""

    version: u16
    id: u16
    sequence: u16


class Reply(Struct):
    """An answered request: when, nanoseconds of time.monotonic_ns(), after `ns`; IP version, identifier, sequence."""

    time: u64
    ns: u64
    version: u16
    id: u16
    sequence: u16


@dataclass(frozen=True)
class Options:
    """Options: what to show."""

    id: int | None = option("-i", "--id", metavar="ID", help="only this identifier", minimum=0, maximum=0xFFFF)


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    pending = bpf.lru_hash(key=Echo, value=u64, size=16_384)
    replies = bpf.ringbuf(Reply, name="replies")

    # ip_send_skb, which the book has, is inlined where raw sockets call it; this is called through a pointer.
    @bpf.function("ip_output")
    def on_send(skb: KernelObject) -> None:
        if cast("struct iphdr *", u64(skb.head) + skb.network_header).protocol == IPPROTO_ICMP:
            icmp = cast("struct icmphdr *", u64(skb.head) + skb.transport_header)
            if icmp.type == ICMP_ECHO and (options.id is None or icmp.un.echo.id == options.id):
                pending[Echo(version=4, id=icmp.un.echo.id, sequence=icmp.un.echo.sequence)] = now()

    @bpf.function("ip6_output", optional=True)
    def on_send6(skb: KernelObject) -> None:
        if cast("struct ipv6hdr *", u64(skb.head) + skb.network_header).nexthdr == IPPROTO_ICMPV6:
            icmp = cast("struct icmp6hdr *", u64(skb.head) + skb.transport_header)
            echo = icmp.icmp6_dataun.u_echo
            if icmp.icmp6_type == ICMPV6_ECHO_REQUEST and (options.id is None or echo.identifier == options.id):
                pending[Echo(version=6, id=echo.identifier, sequence=echo.sequence)] = now()

    @bpf.function("icmp_rcv")
    def on_receive(skb: KernelObject) -> None:
        icmp = cast("struct icmphdr *", u64(skb.head) + skb.transport_header)
        if icmp.type == ICMP_ECHOREPLY:
            key = Echo(version=4, id=icmp.un.echo.id, sequence=icmp.un.echo.sequence)
            sent = pending.get(key)
            if sent is not None:
                time = now()
                replies.emit(Reply(time=time, ns=time - sent, version=4, id=key.id, sequence=key.sequence))
                del pending[key]

    @bpf.function("icmpv6_rcv", optional=True)
    def on_receive6(skb: KernelObject) -> None:
        icmp = cast("struct icmp6hdr *", u64(skb.head) + skb.transport_header)
        if icmp.icmp6_type == ICMPV6_ECHO_REPLY:
            echo = icmp.icmp6_dataun.u_echo
            key = Echo(version=6, id=echo.identifier, sequence=echo.sequence)
            sent = pending.get(key)
            if sent is not None:
                time = now()
                replies.emit(Reply(time=time, ns=time - sent, version=6, id=key.id, sequence=key.sequence))
                del pending[key]

    return bpf


def sentence(reply: Reply) -> str:
    """The book's line."""
    return f"IPv{reply.version} ping, ID {reply.id} seq {reply.sequence}: {reply.ns // 1000} us"


TOOL = EventTool(
    name="superping",
    doc=__doc__,
    section="10.3.23",
    tracing="ICMP echo requests",
    options=Options,
    build=build,
    drop_labels={"pending": "requests under way", "replies": "replies"},
    sentence=sentence,
    record=Reply,
    columns=(
        Column("PING", key=lambda reply: f"IPv{reply.version}", field="ip_version", value="version", type="int"),
        Column("ID"),
        Column("SEQ", key="sequence"),
        Column("LAT(us)", key="ns", scale=1_000, field="latency_ns", drawn=True),
    ),
    examples=(
        Example("superping", "every reply to a ping of this machine"),
        Example("superping -i 181", "of one ping program, by its identifier"),
        Example("superping -T -d 10", "with the time of day, for ten seconds"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: superping.open()
