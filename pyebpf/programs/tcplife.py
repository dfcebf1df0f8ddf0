"""TCP sessions: a line for each that ends, with its process, addresses, bytes and lifespan.

A session lasts from ESTABLISHED (from its first state, if it got no further) until CLOSE; sessions that began before
tcplife are not shown. The client's end belongs to the process that connected, the server's end to the one that accepted
it: on loopback the kernel establishes the server's end while the client's process runs, so the current process is no
guide. A session that was not accepted by accept(2) belongs to the process that closes it; one that no process held has
process 0.

TX_KB and RX_KB are the data that this end sent (each byte once, however often transmitted) and received in order. They
do not count SYN and FIN, which the kernel's own counters include.

Overhead: nothing for data; two or three map operations for each change of state and each accept(2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import (
    BPF,
    KernelObject,
    Struct,
    TcpState,
    array,
    cast,
    char,
    comm,
    current_task,
    field,
    now,
    pid,
    u8,
    u16,
    u32,
    u64,
)
from pyebpf.programs._addresses import socket_address
from pyebpf.programs._session_graph import Edge, edges
from pyebpf.programs._tcp import IPPROTO_TCP
from pyebpf.tool import (
    Column,
    EventMode,
    EventTool,
    Example,
    Record,
    Stop,
    VersionOptions,
    dataclass,
    elapsed_column,
    events,
    flag,
    lifespan_column,
    monotonic_time,
    pid_option,
    ports_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address, IPv6Address

AF_INET6 = 10
#: enum sock_flags of include/net/sock.h: the peer's FIN was received.
SOCK_DONE = 1


class Owner(Struct):
    """Owner of a session."""

    pid: u32
    comm: str = field(char[16])


class Closed(Struct):
    """A session as the kernel's side reports it; times in nanoseconds, IPv4 addresses as numbers."""

    began: u64
    ended: u64
    sent: u64
    received: u64
    local4: u32
    remote4: u32
    pid: u32
    family: u16
    local_port: u16
    remote_port: u16
    local6: bytes = field(array(u8, 16))
    remote6: bytes = field(array(u8, 16))
    comm: str = field(char[16])


@dataclass(frozen=True)
class Session(Record):
    """A session that ended: bytes of data, times in nanoseconds of time.monotonic_ns()'s clock."""

    pid: int
    comm: str
    local: IPv4Address | IPv6Address
    local_port: int
    remote: IPv4Address | IPv6Address
    remote_port: int
    sent: int
    received: int
    began: int
    ended: int

    @property
    def lifespan(self) -> int:
        """Nanoseconds from beginning to end."""
        return self.ended - self.began


@dataclass(frozen=True)
class Options(VersionOptions):
    """Options: which sessions to report."""

    pid: int | None = pid_option()
    local_ports: tuple[int, ...] = ports_option("-L", "--localport", "local")
    remote_ports: tuple[int, ...] = ports_option("-D", "--remoteport", "remote")
    elapsed: bool = flag("-t", "--elapsed", help="print the seconds since the first session reported", output_only=True)
    graph: bool = flag("--dot", help="at the end, who sent whom how much, as a graph in DOT", output_only=True)
    wide: bool = flag(
        "-w", "--wide", help="columns wide enough for IPv6 addresses, and the IP version", output_only=True
    )


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    began = bpf.hash(key=u64, value=u64, size=65_536)
    owners = bpf.hash(key=u64, value=Owner, size=65_536)
    closed = bpf.ringbuf(Closed)

    @bpf.tracepoint("syscalls:sys_exit_accept", "syscalls:sys_exit_accept4")
    def on_accept(ret: int) -> None:
        if ret < 0:
            return
        file = current_task().files.fdt.fd[ret]
        sk = cast("struct socket", file.private_data).sk
        # What else can be accepted has no beginning noted.
        if sk in began:
            owners[sk] = Owner(pid=pid(), comm=comm())

    @bpf.btf_tracepoint("inet_sock_set_state")
    def on_state(sk: KernelObject, newstate: int) -> None:
        if sk.sk_protocol != IPPROTO_TCP:
            return
        if newstate in (TcpState.SYN_SENT, TcpState.SYN_RECV, TcpState.ESTABLISHED):
            began[sk] = now()
            # Only connect(2) makes this one.
            if newstate == TcpState.SYN_SENT:
                owners[sk] = Owner(pid=pid(), comm=comm())
            return
        start = began.get(sk)
        if start is None:
            return
        # These two come from close(2) or shutdown(2) only, whoever accepted is known better.
        if newstate in (TcpState.FIN_WAIT1, TcpState.LAST_ACK):
            owners.add(sk, Owner(pid=pid(), comm=comm()))
        if newstate != TcpState.CLOSE:
            return
        tcp = cast("struct tcp_sock", sk)
        common = sk.__sk_common
        session = Closed(
            began=start,
            ended=now(),
            sent=tcp.bytes_sent - tcp.bytes_retrans,
            received=tcp.bytes_received - ((common.skc_flags >> SOCK_DONE) & 1),
            local4=common.skc_rcv_saddr,
            remote4=common.skc_daddr,
            pid=0,
            family=common.skc_family,
            # skc_num is cleared already when the port is given back.
            local_port=cast("struct inet_sock", sk).inet_sport,
            remote_port=common.skc_dport,
            local6=common.skc_v6_rcv_saddr.in6_u.u6_addr8,
            remote6=common.skc_v6_daddr.in6_u.u6_addr8,
            comm="",
        )
        owner = owners.get(sk)
        if owner is not None:
            session.pid = owner.pid
            session.comm = owner.comm
            del owners[sk]
        del began[sk]
        if options.pid is not None and session.pid != options.pid:
            return
        if options.local_ports and session.local_port not in options.local_ports:
            return
        if options.remote_ports and session.remote_port not in options.remote_ports:
            return
        closed.emit(session)

    return bpf


def sessions(bpf: BPF, options: Options, stop: Stop) -> Iterator[Session]:
    """Sessions as they end."""
    for found in events(bpf["closed"], stop):
        version = 6 if found.family == AF_INET6 else 4
        local = socket_address(version, found.local4, found.local6)
        remote = socket_address(version, found.remote4, found.remote6)
        # Here, not in the probe: IPv4 over a socket of IPv6 is known by the whole address.
        if local.version not in options.versions:
            continue
        yield Session(
            pid=found.pid,
            comm=found.comm,
            local=local,
            local_port=found.local_port,
            remote=remote,
            remote_port=found.remote_port,
            sent=found.sent,
            received=found.received,
            began=monotonic_time(found.began),
            ended=monotonic_time(found.ended),
        )


def columns(options: Options) -> tuple[Column, ...]:
    """The book's columns."""
    comm, address = (16, 39) if options.wide else (10, 15)
    return (
        *([elapsed_column("ended")] if options.elapsed else []),
        Column("PID", 7),
        Column("COMM", comm),
        *([Column("IP", 2, key="local.version", field="ip_version", type="int")] if options.wide else []),
        Column("LADDR", address, key="local", cut=False, field="local_address"),
        Column("LPORT", 5, key="local_port"),
        Column("RADDR", address, key="remote", cut=False, field="remote_address"),
        Column("RPORT", 5, key="remote_port"),
        Column("TX_KB", 5, ">", key="sent", scale=1024, decimals=0, field="sent_bytes"),
        Column("RX_KB", 5, ">", key="received", scale=1024, decimals=0, field="received_bytes"),
        lifespan_column(),
    )


TOOL = EventTool(
    name="tcplife",
    doc=__doc__,
    tracing="TCP sessions",
    options=Options,
    build=build,
    drop_labels={"began": "sessions under way", "owners": "owners of sessions", "closed": "sessions"},
    records=sessions,
    record=Session,
    time="ended",
    columns=columns,
    modes={
        "graph": EventMode(
            records=lambda bpf, options, stop: iter(edges(sessions(bpf, options, stop))),
            record=Edge,
            sentence=lambda edge: edge.line,
            columns=(
                Column("FROM", key="source"),
                Column("TO", key="target"),
                Column("SESSIONS"),
                Column("BYTES", key="sent", field="sent_bytes"),
            ),
        )
    },
    examples=(
        Example("tcplife", "every session that ends"),
        Example("tcplife -T", "with the time of day"),
        Example("tcplife -p 181", "only process 181"),
        Example("tcplife -L 80,443", "only these local ports"),
        Example("tcplife -t -w", "with seconds, and room for IPv6"),
        Example("tcplife --dot -d 60", "a graph of a minute, for Graphviz's dot"),
        Example("tcplife -D 5432 --json", "only this remote port, one object per line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcplife.open(pid=42)
