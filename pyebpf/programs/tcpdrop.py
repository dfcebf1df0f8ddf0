"""TCP packets that the kernel drops, with the state of their connection, the reason and the kernel's stack.

Prints a line for each packet with a TCP header that the kernel frees as dropped (skb:kfree_skb): by TCP itself, a
filter, a queue, a full socket. The state is that of the packet's socket, `-` if there is none or the kernel does not
report it (before Linux 6.11); the reason is `-` before Linux 5.17. PID is the process that ran when the packet was
dropped, often not its owner.

Unless --all is given, segments are left out that the kernel frees in this way although no data is lost: those without
unread data in the queues of a closed socket (the FIN of most sessions), those that a connection in TIME_WAIT has
handled, those whose data is in another queued segment, and ACKs without data that a connection handled after its peer's
FIN.

Overhead: 2.0 to 2.5 us for each reported packet, 0.05 us for other dropped packets, nothing for packets that are not
dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import (
    BPF,
    RawTracepointContext,
    TcpState,
    cast,
    enum,
    has_enum,
    has_field,
    kstack,
    now,
    pid,
    s32,
    u8,
    u16,
    u32,
    u64,
)
from pyebpf.endpoints import with_port
from pyebpf.programs._addresses import PacketAddresses
from pyebpf.programs._drops import EVENT, ReasonFilter, check_reasons, reason_names, reasons_option
from pyebpf.programs._tcp import IPPROTO_TCP
from pyebpf.tool import (
    Column,
    EventTool,
    Example,
    Record,
    Stop,
    VersionOptions,
    dataclass,
    events,
    flag,
    monotonic_time,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address, IPv6Address

ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD
IPV6_HEADER = 40
#: The reason of what a socket's queues hold when it is closed. Older kernels have none for it.
PURGED = "SKB_DROP_REASON_QUEUE_PURGE"
#: No reason is given. In TIME_WAIT such a packet was looked at, and answered where it had to be: no drop. In the states
#: below the kernel frees an ACK without data so after it has handled it (tcp_rcv_state_process).
UNSPECIFIED = "SKB_DROP_REASON_NOT_SPECIFIED"
HALF_CLOSED = (
    TcpState.FIN_WAIT1,
    TcpState.FIN_WAIT2,
    TcpState.CLOSE_WAIT,
    TcpState.LAST_ACK,
    TcpState.CLOSING,
)
#: The reason of segments out of order whose data another one has.
MERGED = "SKB_DROP_REASON_TCP_OFOMERGE"
#: The TCP header's flags, from the lowest bit.
FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")


class Dropped(PacketAddresses):
    """A packet as the kernel's side reports it; IPv4 addresses as numbers."""

    source_port: u16
    destination_port: u16
    state: u8
    flags: u8
    pid: u32
    reason: u32
    stack: s32
    time: u64


@dataclass(frozen=True)
class Drop(Record):
    """A packet that was dropped, when; `stack` is the kernel's, the innermost function first."""

    time: int
    pid: int
    source: IPv4Address | IPv6Address
    source_port: int
    destination: IPv4Address | IPv6Address
    destination_port: int
    state: str | None
    flags: str
    reason: str
    stack: tuple[str, ...]

    @property
    def sender(self) -> str:
        """Address and port of the sender."""
        return with_port(self.source, self.source_port)

    @property
    def receiver(self) -> str:
        """Address and port of the receiver."""
        return with_port(self.destination, self.destination_port)


@dataclass(frozen=True)
class Options(VersionOptions):
    """Options: which packets to report."""

    reasons: tuple[str, ...] = reasons_option()
    all: bool = flag(
        "-a", "--all", help="also segments whose data is not lost: of closed sockets, ACKs, and duplicates"
    )


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, reasons = BPF(), ReasonFilter(options.reasons)
    bpf.before_compiling.append(check_reasons(options.reasons))
    drops = bpf.ringbuf(Dropped)

    @bpf.btf_tracepoint("kfree_skb")
    def on_drop(ctx: RawTracepointContext) -> None:
        if not reasons.wanted(ctx):
            return
        if not options.all and has_enum(MERGED) and ctx.reason == enum(MERGED):
            return
        skb = ctx.skb
        header = u64(skb.head) + skb.network_header
        packet = Dropped(
            time=0,
            pid=0,
            # Since Linux commit c504e5c2f964 ("net: skb: introduce kfree_skb_reason()") (v5.17).
            reason=ctx.reason if has_field(EVENT, "reason") else 0,
            stack=0,
            source4=0,
            destination4=0,
            source_port=0,
            destination_port=0,
            state=0,
            flags=0,
            version=0,
            source6=bytes(16),
            destination6=bytes(16),
        )
        length = 0
        if 4 in options.versions and skb.protocol == ETH_P_IP:
            ip = cast("struct iphdr", header)
            if ip.version != 4 or ip.protocol != IPPROTO_TCP:
                return
            length = ip.ihl * 4
            packet.version = 4
            packet.source4 = ip.saddr
            packet.destination4 = ip.daddr
        elif 6 in options.versions and skb.protocol == ETH_P_IPV6:
            ip6 = cast("struct ipv6hdr", header)
            if ip6.version != 6 or ip6.nexthdr != IPPROTO_TCP:
                return
            length = IPV6_HEADER
            packet.version = 6
            packet.source6 = ip6.saddr.in6_u.u6_addr8
            packet.destination6 = ip6.daddr.in6_u.u6_addr8
        else:
            return
        tcp = cast("struct tcphdr", header + length)
        packet.source_port = tcp.source
        packet.destination_port = tcp.dest
        packet.flags = (
            tcp.fin
            | tcp.syn << 1
            | tcp.rst << 2
            | tcp.psh << 3
            | tcp.ack << 4
            | tcp.urg << 5
            | tcp.ece << 6
            | tcp.cwr << 7
        )
        # Since Linux commit 65cafe4d2d7e ("net: introduce sk_skb_reason_drop function") and its neighbours (in v6.11)
        # the tracepoint has the socket that the packet was for; before, and on its way out, the packet may.
        unexplained = not options.all and has_enum(UNSPECIFIED) and ctx.reason == enum(UNSPECIFIED)
        if has_field(EVENT, "rx_sk"):
            packet.state = cast("struct sock", ctx.rx_sk).__sk_common.skc_state
            if unexplained and packet.state in HALF_CLOSED and not (tcp.fin or tcp.syn or tcp.rst):
                if packet.version == 4:
                    size = cast("struct iphdr", header).tot_len - length
                else:
                    size = cast("struct ipv6hdr", header).payload_len
                if size == tcp.doff * 4:
                    return
        if packet.state == 0:
            packet.state = cast("struct sock", skb.sk).__sk_common.skc_state
        # A FIN in the queue of a closed socket has no data left. What has was never read: it is lost.
        if not options.all and packet.state == TcpState.CLOSE and skb.len == 0:
            if has_enum(PURGED):
                if ctx.reason == enum(PURGED):
                    return
            elif tcp.fin:
                return
        if unexplained and packet.state == TcpState.TIME_WAIT:
            return
        packet.time = now()
        packet.pid = pid()
        packet.stack = kstack()
        drops.emit(packet)

    return bpf


def flag_names(flags: int) -> str:
    """The flags that are set, such as SYN|ACK."""
    return "|".join(name for bit, name in enumerate(FLAGS) if flags >> bit & 1) or "-"


def drops(bpf: BPF, _options: Options, stop: Stop) -> Iterator[Drop]:
    """Packets as they are dropped."""
    name = reason_names(bpf)
    states = {state.value: state.name for state in TcpState}
    for found in events(bpf["drops"], stop):
        yield Drop(
            time=monotonic_time(found.time),
            pid=found.pid,
            source=found.source,
            source_port=found.source_port,
            destination=found.destination,
            destination_port=found.destination_port,
            state=states.get(found.state),
            flags=flag_names(found.flags),
            reason=name(found.reason),
            stack=tuple(str(frame) for frame in bpf.stacks.kernel(found.stack)),
        )


TOOL = EventTool(
    name="tcpdrop",
    doc=__doc__,
    section="10.3.31",
    tracing="TCP drops",
    options=Options,
    build=build,
    drop_labels={"drops": "packets"},
    records=drops,
    record=Drop,
    time="time",
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("IP", 2, key="source.version", field="ip_version", type="int"),
        Column("SADDR:SPORT", 20, key="sender", cut=False, field=None),
        Column("DADDR:DPORT", 20, key="receiver", cut=False, field=None),
        Column("SADDR", key="source", field="source_address", printed=False),
        Column("SPORT", key="source_port", printed=False),
        Column("DADDR", key="destination", field="destination_address", printed=False),
        Column("DPORT", key="destination_port", printed=False),
        Column("STATE", 11),
        Column("FLAGS"),
        Column("REASON", below=True),
        Column("STACK", below=True),
    ),
    examples=(
        Example("tcpdrop", "TCP packets that are dropped, with stacks"),
        Example("tcpdrop -4", "only IPv4"),
        Example("tcpdrop --json -d 60", "for a minute, an object a packet"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpdrop.open()
