"""Changes of state of TCP sockets: a line for each, with the time that the socket was in the old state.

C-PID and C-COMM are the process that ran when the state changed. It is the socket's own for what connect(2), listen(2)
and close(2) cause; packets are handled in whatever process they interrupt. MS is - for a socket's first change that
tcpstates sees. While a socket is in SYN_SENT its local port is not chosen yet, and one that a listener makes has no
remote end in its first line on some kernels.

Overhead: one map operation and one record for each change of state; nothing for data.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, TcpState, now, u8, u64
from pyebpf.endpoints import Endpoints, endpoints
from pyebpf.filters import SocketFilter
from pyebpf.programs._tcp import IPPROTO_TCP, state_name
from pyebpf.tasks import TaskEvent
from pyebpf.tool import (
    Column,
    EventTool,
    Example,
    SocketOptions,
    dataclass,
    elapsed_column,
    ends_columns,
    flag,
)

#: Those that a plot tells apart.
STATES = ("SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2")


class Change(TaskEvent):
    """A change of state, at `time`; `since` is the time of the socket's change before, 0 if that was not seen."""

    old: u8
    new: u8
    since: u64
    socket: u64
    ends: Endpoints

    @property
    def duration(self) -> int | None:
        """Nanoseconds in the old state, None if its beginning was not seen."""
        return self.time - self.since if self.since else None

    @property
    def old_state(self) -> str:
        """The old state's name."""
        return state_name(self.old)

    @property
    def new_state(self) -> str:
        """The new state's name."""
        return state_name(self.new)


@dataclass(frozen=True)
class Options(SocketOptions):
    """Options: which changes to report, and how."""

    elapsed: bool = flag("-t", "--elapsed", help="print the seconds since the first change reported", output_only=True)
    wide: bool = flag("-w", "--wide", help="the socket's address and the process's name, too", output_only=True)


def build(options: Options) -> BPF:
    """The probe and maps; nothing is loaded yet."""
    bpf, sockets = BPF(), SocketFilter(options)
    since = bpf.hash(key=u64, value=u64, size=65_536)
    changes = bpf.ringbuf(Change)

    @bpf.btf_tracepoint("inet_sock_set_state")
    def on_state(sk: KernelObject, oldstate: int, newstate: int) -> None:
        if sk.sk_protocol != IPPROTO_TCP:
            return
        time = now()
        before = since.get(sk, 0)
        if newstate == TcpState.CLOSE:
            del since[sk]
        else:
            since[sk] = time
        ends = endpoints(sk)
        if sockets.wanted(ends):
            changes.emit(Change(time=time, old=oldstate, new=newstate, since=before, socket=u64(sk), ends=ends))

    return bpf


def columns(options: Options) -> tuple[Column, ...]:
    """The book's columns; those that 80 characters have no room for only if they are asked for."""
    return (
        *([elapsed_column("time")] if options.elapsed else []),
        Column(
            "SKADDR",
            16,
            key=lambda change: f"{change.socket:x}",
            field="socket_address",
            value=lambda change: f"{change.socket:#x}",
            printed=options.wide,
        ),
        Column("C-PID", 7, key="pid", field="current_pid"),
        Column("C-COMM", 10, key="comm", field="current_comm", printed=options.wide),
        *ends_columns(wide=options.wide),
        Column("MS", 7, ">", key="duration", scale=1_000_000, decimals=2, field="duration_ns", drawn=True),
        Column("OLDSTATE -> NEWSTATE", key=lambda c: f"{c.old_state} -> {c.new_state}", field=None),
        Column("OLDSTATE", key="old_state", printed=False, classes=STATES),
        Column("NEWSTATE", key="new_state", printed=False),
    )


TOOL = EventTool(
    name="tcpstates",
    doc=__doc__,
    section="10.3.31",
    tracing="TCP states",
    options=Options,
    build=build,
    drop_labels={"since": "sockets", "changes": "changes"},
    record=Change,
    columns=columns,
    examples=(
        Example("tcpstates", "every change of state"),
        Example("tcpstates -T -L 80,443", "of these local ports, with the time of day"),
        Example("tcpstates -t", "with the seconds since the first change"),
        Example("tcpstates -w -6", "of IPv6, with the sockets' addresses"),
        Example("tcpstates -D 5432 --json", "of this remote port, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpstates.open(local_ports=(80,))
