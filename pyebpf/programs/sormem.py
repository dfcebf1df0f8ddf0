"""Receive buffers of sockets: how full they are when processes read, and a line for each overflow.

Histograms show, of each message that a process is about to receive, the bytes that wait in the socket's buffer
(allocated) and the buffer's size (limit). Lines are packets that found the buffer full (sock_rcvqueue_full, and
udp_fail_queue_rcv_skb of UDP), and data refused since the protocol's memory is used up (sock_exceed_buf_limit).

Overhead: a probe and two histograms for each message that is received; nothing for packets that find room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, KernelObject, Struct, char, field, now, s32, s64, u16, u32, u64
from pyebpf.endpoints import Endpoints, endpoints, with_port
from pyebpf.filters import TaskFilter
from pyebpf.programs._sockets import is_ip
from pyebpf.tool import Column, EventLines, Example, Histogram, SummaryTool, TaskOptions, ends_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Tracepoints by the numbers of their events.
EVENTS = ("sock_rcvqueue_full", "sock_exceed_buf_limit", "udp_fail_queue_rcv_skb")
QUEUE_FULL, LIMIT_EXCEEDED, UDP_FULL = range(3)


class Overflow(Struct):
    """A buffer that overflowed: the time in nanoseconds, bytes allocated, and its size.

    `size` is that of the packet, 0 if it is not known; `pages` the memory of all the protocol's sockets where that is
    the reason. Ends are those of IP sockets.
    """

    time: u64
    pages: s64
    allocated: u32
    limit: s32
    size: u32
    event: u16
    protocol: str = field(char[32])
    ends: Endpoints

    @property
    def name(self) -> str:
        """The tracepoint's name."""
        return EVENTS[self.event]


def build(options: TaskOptions) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    allocated = bpf.log2_hist(unit="bytes", name="allocated")
    limit = bpf.log2_hist(unit="bytes", name="limit")
    overflows = bpf.ringbuf(Overflow, name="overflows")

    @bpf.function("sock_recvmsg")
    def on_receive(sock: KernelObject) -> None:
        if tasks.wanted():
            sk = sock.sk
            allocated.add(sk.sk_backlog.rmem_alloc.counter)
            limit.add(sk.sk_rcvbuf)

    def overflow(event: int, sk: KernelObject, size: int, pages: int) -> None:
        common = sk.__sk_common
        found = Overflow(
            time=now(),
            pages=pages,
            allocated=sk.sk_backlog.rmem_alloc.counter,
            limit=sk.sk_rcvbuf,
            size=size,
            event=event,
            protocol=common.skc_prot.name,
            ends=Endpoints(
                local_high=0,
                local_low=0,
                remote_high=0,
                remote_low=0,
                local_port=0,
                remote_port=0,
                family=common.skc_family,
            ),
        )
        if is_ip(found.ends.family):
            found.ends = endpoints(sk)
        overflows.emit(found)

    @bpf.btf_tracepoint("sock_rcvqueue_full")
    def on_full(sk: KernelObject, skb: KernelObject) -> None:
        overflow(QUEUE_FULL, sk, skb.truesize, 0)

    @bpf.btf_tracepoint("sock_exceed_buf_limit")
    def on_exceeded(sk: KernelObject, allocated: int) -> None:
        overflow(LIMIT_EXCEEDED, sk, 0, allocated)

    @bpf.btf_tracepoint("udp_fail_queue_rcv_skb")
    def on_datagram(sk: KernelObject) -> None:
        overflow(UDP_FULL, sk, 0, 0)

    return bpf


def snapshot(bpf: Any, options: TaskOptions) -> Iterator[Histogram]:  # noqa: ARG001 - as every tool's
    """The interval's histograms: the bytes that waited, then the buffers' sizes."""
    for name in ("allocated", "limit"):
        yield bpf[name].interval().with_labels({"buffer": name})


def sentence(overflow: Overflow) -> str:
    """The book's line, with the socket."""
    more = {QUEUE_FULL: f", skb size {overflow.size}", LIMIT_EXCEEDED: f", allocated {overflow.pages} pages"}
    at = "" if overflow.ends.local_port == 0 else f" of {with_port(overflow.ends.local, overflow.ends.local_port)}"
    return (
        f"{overflow.name}: {overflow.protocol}{at}, rmem_alloc {overflow.allocated}, rcvbuf {overflow.limit}"
        f"{more.get(overflow.event, '')}"
    )


TOOL = SummaryTool(
    name="sormem",
    doc=__doc__,
    section="10.3.8",
    tracing="receive buffers of sockets",
    options=TaskOptions,
    build=build,
    drop_labels={"overflows": "overflows"},
    snapshot=snapshot,
    lines=EventLines(
        record=Overflow,
        sentence=sentence,
        columns=(
            Column("TIME", 8),
            Column("EVENT", key="name", field="event"),
            Column("PROTO", key="protocol"),
            *ends_columns(),
            Column("ALLOCATED", key="allocated", field="allocated_bytes"),
            Column("LIMIT", key="limit", field="limit_bytes"),
            Column("SIZE", key="size", field="packet_bytes"),
            Column("PAGES"),
        ),
    ),
    examples=(
        Example("sormem", "a line an overflow, histograms when Ctrl-C ends it"),
        Example("sormem 10", "histograms every ten seconds"),
        Example("sormem -p 181", "only reads of process 181"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: sormem.open(pid=42)
