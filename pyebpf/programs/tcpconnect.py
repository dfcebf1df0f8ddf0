"""TCP connections that processes open: a line for each, with the process, both ends and the time of connect(2).

A line is an active open: a SYN that the kernel sent, whether or not it is answered. The local port is chosen inside
connect(2), so a line is printed when the connection is established or refused, when a connect(2) that does not wait
returns, or when the SYN is sent again, after a second without an answer. TIME is that of the open.

Overhead: nothing for data; one or two map operations for each connection that is opened.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, TcpState, cast, helpers, u32, u64, uid
from pyebpf.endpoints import Endpoints, endpoints
from pyebpf.filters import SocketFilter, TaskFilter
from pyebpf.programs._tcp import IPPROTO_TCP
from pyebpf.tasks import TaskEvent
from pyebpf.tool import (
    Column,
    ConnectionOptions,
    EventTool,
    Example,
    SummaryMode,
    counts_of,
    dataclass,
    ends_columns,
    flag,
)


class Opened(Struct):
    """Key of the opens: the address of a `struct sock`."""

    address: u64


class Attempt(TaskEvent):
    """An open whose local port is not known yet."""

    uid: u32


class Connect(TaskEvent):
    """A connection that a process opened; `uid` is 0 unless it is asked for."""

    uid: u32
    ends: Endpoints


class Pair(Struct):
    """Key of the counts: ends, without the local port, which is another for each connection, unless it is asked for."""

    ends: Endpoints


@dataclass(frozen=True)
class Options(ConnectionOptions):
    """Options: which connections to report."""

    counts: bool = flag("-c", "--count", help="count connections by address and remote port")
    source_port: bool = flag("-s", "--source-port", help="with -c: by local port, too")
    print_uid: bool = flag("-U", "--print-uid", help="a column with the user's id")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks, sockets = BPF(), TaskFilter(options), SocketFilter(options)
    attempts = bpf.hash(key=Opened, value=Attempt, size=16_384)
    # The socket that a thread opens. What opens one without connect(2), such as io_uring, leaves its entry behind.
    opening = bpf.lru_hash(key=u64, value=u64, size=16_384)
    if options.counts:
        counts = bpf.counter(key=Pair, name="counts")
    else:
        connects = bpf.ringbuf(Connect, name="connects")

    def report(sk: KernelObject) -> None:
        key = Opened(address=u64(sk))
        attempt = attempts.get(key)
        if attempt is None:
            return
        connect = Connect(
            time=attempt.time,
            pid=attempt.pid,
            comm=attempt.comm,
            uid=attempt.uid if options.print_uid else 0,
            ends=endpoints(sk),
        )
        # Of two processors that come here at once, one removes the entry.
        if helpers.map_delete_elem(attempts, key) != 0 or not sockets.wanted(connect.ends):
            return
        if options.counts:
            if not options.source_port:
                connect.ends.local_port = 0
            counts[Pair(ends=connect.ends)].add()
        else:
            connects.emit(connect)

    @bpf.btf_tracepoint("inet_sock_set_state")
    def on_state(sk: KernelObject, oldstate: int, newstate: int) -> None:
        if sk.sk_protocol != IPPROTO_TCP:
            return
        if newstate == TcpState.SYN_SENT:
            if tasks.wanted():
                user = uid() if options.print_uid else 0
                attempts[Opened(address=u64(sk))] = Attempt(uid=user)
                opening[helpers.get_current_pid_tgid()] = u64(sk)
        elif oldstate == TcpState.SYN_SENT:
            # Without a port to connect from, no SYN was sent.
            if newstate == TcpState.CLOSE and cast("struct tcp_sock", sk).segs_out == 0:
                del attempts[Opened(address=u64(sk))]
            else:
                report(sk)

    @bpf.btf_tracepoint("tcp_retransmit_skb")
    def on_retransmit(sk: KernelObject) -> None:
        if sk.__sk_common.skc_state == TcpState.SYN_SENT:
            report(sk)

    @bpf.tracepoint("syscalls:sys_exit_connect")
    def on_connect() -> None:
        address = opening.pop(helpers.get_current_pid_tgid(), 0)
        if address:
            report(cast("struct sock", address))

    return bpf


def columns(options: Options) -> tuple[Column, ...]:
    """The book's columns, and the user's id if it is asked for."""
    return (
        Column("TIME", 8),
        *([Column("UID", 6)] if options.print_uid else []),
        Column("PID", 7),
        Column("COMM", 16),
        Column("IP", 2, key="ends.version", field="ip_version", type="int"),
        *ends_columns(),
    )


def count_columns(options: Options) -> tuple[Column, ...]:
    """Addresses and ports with their count."""
    local_port = Column("LPORT", 6, ">", key="ends.local_port", field="local_port", type="int")
    return (
        Column("LADDR", 25, key="ends.local", cut=False, field="local_address", type="str"),
        *([local_port] if options.source_port else []),
        Column("RADDR", 25, key="ends.remote", cut=False, field="remote_address", type="str"),
        Column("RPORT", 6, ">", key="ends.remote_port", field="remote_port", type="int"),
        Column("CONNECTS", 10, ">", key="count", type="int"),
    )


TOOL = EventTool(
    name="tcpconnect",
    doc=__doc__,
    section="10.3.11",
    tracing="TCP connections",
    options=Options,
    build=build,
    drop_labels={
        "attempts": "connections under way",
        "opening": "threads that connect",
        "connects": "connections",
        "counts": "connections of further addresses",
    },
    record=Connect,
    columns=columns,
    modes={"counts": SummaryMode(snapshot=counts_of("counts"), record=Pair, columns=count_columns)},
    examples=(
        Example("tcpconnect", "every connection that is opened"),
        Example("tcpconnect -p 181", "only by process 181"),
        Example("tcpconnect -D 80,443", "only to these ports"),
        Example("tcpconnect -c 10", "counts by address and port, every ten seconds"),
        Example("tcpconnect -U -u 1000", "of user 1000, with a column for the user"),
        Example("tcpconnect -4 --json", "of IPv4, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpconnect.open(pid=42)
