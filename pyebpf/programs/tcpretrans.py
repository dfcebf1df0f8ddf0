"""TCP segments that are sent again: a line for each, with both ends and the connection's state.

T> is R for a segment that a timer or duplicate ACKs cause to be sent again, S for a SYN-ACK, and L for a tail loss
probe, which repeats the last segment early. A probe may carry new data instead, which repeats nothing: -l shows those,
too. PID is the process that ran, 0 for an idle processor: retransmissions come from timers and packets.

Overhead: one probe for each segment that is sent again, nothing for others.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, cast, char, field, now, pid, u8, u32, u64
from pyebpf.endpoints import Endpoints, endpoints
from pyebpf.filters import SocketFilter
from pyebpf.programs._tcp import joined_ends_columns, state_name
from pyebpf.tool import Column, EventTool, Example, SocketOptions, SummaryMode, counts_of, dataclass, flag

#: include/net/inet_connection_sock.h: the timer that is due, until a tail loss probe was sent.
ICSK_TIME_LOSS_PROBE = 5
#: include/uapi/linux/tcp.h: the first state in which segments are lost. Acknowledgements have them sent again in it,
#: also while a probe is due; probes are sent in the states before.
TCP_CA_RECOVERY = 3


class Retransmit(Struct):
    """A segment that was sent again: `kind` is R, L or S; time in nanoseconds of time.monotonic_ns()'s clock."""

    time: u64
    pid: u32
    state_number: u8
    kind: str = field(char[4])
    ends: Endpoints

    @property
    def state(self) -> str:
        """The name of the connection's state."""
        return state_name(self.state_number)


class Flow(Struct):
    """Key of the counts."""

    ends: Endpoints


@dataclass(frozen=True)
class Options(SocketOptions):
    """Options: which retransmissions to report."""

    loss_probes: bool = flag("-l", "--lossprobe", help="also tail loss probes with new data")
    counts: bool = flag("-c", "--count", help="count by flow")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, sockets = BPF(), SocketFilter(options)
    if options.counts:
        counts = bpf.counter(key=Flow, name="counts")
    else:
        retransmits = bpf.ringbuf(Retransmit, name="retransmits")

    def report(sk: KernelObject, state: int, kind: str) -> None:
        ends = endpoints(sk)
        if not sockets.wanted(ends):
            return
        if options.counts:
            counts[Flow(ends=ends)].add()
        else:
            retransmits.emit(Retransmit(time=now(), pid=pid(), state_number=state, kind=kind, ends=ends))

    @bpf.btf_tracepoint("tcp_retransmit_skb")
    def on_retransmit(sk: KernelObject) -> None:
        connection = cast("struct inet_connection_sock", sk)
        probe = connection.icsk_pending == ICSK_TIME_LOSS_PROBE and connection.icsk_ca_state < TCP_CA_RECOVERY
        report(sk, sk.__sk_common.skc_state, "L" if probe else "R")

    @bpf.btf_tracepoint("tcp_retransmit_synack")
    def on_synack(req: KernelObject) -> None:
        report(cast("struct sock", req), req.__req_common.skc_state, "S")

    if options.loss_probes:
        # Those that may be sent, with a number above that of the packets in flight.
        probes = bpf.hash(key=u64, value=u32, name="probes")

        @bpf.function("tcp_send_loss_probe")
        def on_probe(sk: KernelObject) -> None:
            tcp = cast("struct tcp_sock", sk)
            if tcp.tlp_high_seq == 0:
                probes[sk] = tcp.packets_out + 1

        @bpf.call("tcp_send_loss_probe")
        def on_probe_sent(sk: KernelObject) -> None:
            before = probes.pop(sk, 0)
            tcp = cast("struct tcp_sock", sk)
            if before and tcp.tlp_high_seq != 0 and tcp.packets_out >= before:
                report(sk, sk.__sk_common.skc_state, "L")

    return bpf


TOOL = EventTool(
    name="tcpretrans",
    doc=__doc__,
    section="10.3.16",
    tracing="retransmits",
    options=Options,
    build=build,
    drop_labels={"retransmits": "retransmits", "counts": "retransmits of further flows", "probes": "tail loss probes"},
    record=Retransmit,
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("IP", 2, key="ends.version", field="ip_version", type="int"),
        *joined_ends_columns(
            Column("T>", 2, key=lambda record: f"{record.kind}>", field="kind", value="kind"),
            headings=("LADDR:LPORT", "RADDR:RPORT"),
            width=20,
        ),
        Column("STATE"),
    ),
    modes={
        "counts": SummaryMode(
            snapshot=counts_of("counts"),
            record=Flow,
            columns=(
                *joined_ends_columns(headings=("LADDR:LPORT", "RADDR:RPORT"), width=25),
                Column("RETRANSMITS", 12, ">", key="count", type="int"),
            ),
        )
    },
    examples=(
        Example("tcpretrans", "every segment that is sent again"),
        Example("tcpretrans -l", "with all tail loss probes"),
        Example("tcpretrans -c 60", "counts by flow, each minute"),
        Example("tcpretrans -D 443 --json", "to this remote port, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpretrans.open(counts=True)
