"""Lifespans of socket sessions: a line for each that ends, from connect(2) or accept(2) to the last close.

A session begins when connect(2) succeeds, or goes on in the background, or accept(2) returns. It ends when the last
descriptor of the socket is closed, by whatever process. Sockets of every family are shown, with the process and the
address of the beginning.

Overhead: two probes for each connect(2) and accept(2), and one for each socket that is closed.
"""

from __future__ import annotations

import errno

from pyebpf import BPF, KernelObject, cast, u16
from pyebpf.endpoints import SocketAddress, sockaddr
from pyebpf.filters import TaskFilter
from pyebpf.programs._new_sockets import ACCEPT, CONNECT, call_name
from pyebpf.programs._sockets import AF_UNSPEC, accepted_from, address_columns, socket_of
from pyebpf.tasks import Lifespan, Lifespans
from pyebpf.tool import Column, EventTool, Example, TaskOptions, lifespan_column


class Session(Lifespan):
    """A session that ended: times in nanoseconds, the process that began it and the address that it was with."""

    #: 0 if the session began with connect(2), 1 if with accept(2).
    call: u16
    peer: SocketAddress


def build(options: TaskOptions) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    sessions = Lifespans(bpf, Session, name="sessions", ended="ended")

    @bpf.system_call("connect")
    def on_connect(fd: int, uservaddr: int, addrlen: int, retval: int) -> None:
        if retval not in (0, -errno.EINPROGRESS) or not tasks.wanted():
            return
        peer = sockaddr(uservaddr, addrlen)
        if peer.family != AF_UNSPEC:
            # A session that has begun goes on: connect(2) may be called again to learn how the first call ended.
            sessions.under_way.add(socket_of(fd), Session(call=CONNECT, peer=peer))

    @bpf.system_call("accept", "accept4")
    def on_accept(retval: int) -> None:
        if retval >= 0 and tasks.wanted():
            sk = socket_of(retval)
            sessions.under_way[sk] = Session(call=ACCEPT, peer=accepted_from(sk))

    @bpf.function("sock_close")
    def on_close(filp: KernelObject) -> None:
        sessions.end(cast("struct socket", filp.private_data).sk)

    return bpf


TOOL = EventTool(
    name="solife",
    doc=__doc__,
    tracing="socket sessions",
    options=TaskOptions,
    build=build,
    drop_labels={"sessions": "sessions under way", "ended": "sessions"},
    record=Session,
    columns=(
        Column("PID", 7),
        Column("COMM", 16),
        Column("CALL", 7, key=call_name, field="call", type="str", classes=("connect", "accept")),
        *address_columns("peer"),
        lifespan_column(),
    ),
    examples=(
        Example("solife", "every session that ends"),
        Example("solife -T", "with the time of day"),
        Example("solife -p 181 --json", "that process 181 began, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: solife.open(pid=42)
