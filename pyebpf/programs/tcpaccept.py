"""TCP connections that processes accept: a line for each, with the process, both ends and the listener's backlog.

BL is the listener's accept queue when accept(2) returns: the connections that still wait, and the limit that listen(2)
set. A queue that is nearly full each time belongs to a server that accepts too slowly.

Overhead: nothing for data; a probe for each accept(2) and a record for each connection.
"""

from __future__ import annotations

from pyebpf import BPF, u32
from pyebpf.endpoints import Endpoints, endpoints
from pyebpf.filters import SocketFilter, TaskFilter
from pyebpf.programs._sockets import is_ip, socket_of
from pyebpf.programs._tcp import IPPROTO_TCP
from pyebpf.tasks import TaskEvent
from pyebpf.tool import Column, ConnectionOptions, EventTool, Example, ends_columns


class Accept(TaskEvent):
    """An accepted connection; time in nanoseconds of time.monotonic_ns()'s clock.

    `backlog` connections waited in the listener's queue afterwards, whose limit is `limit`.
    """

    backlog: u32
    limit: u32
    ends: Endpoints


def build(options: ConnectionOptions) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, tasks, sockets = BPF(), TaskFilter(options), SocketFilter(options)
    accepts = bpf.ringbuf(Accept)

    @bpf.system_call("accept", "accept4")
    def on_accept(fd: int, retval: int) -> None:
        if retval < 0 or not tasks.wanted():
            return
        sk = socket_of(retval)
        if sk.sk_protocol != IPPROTO_TCP or not is_ip(sk.__sk_common.skc_family):
            return
        ends = endpoints(sk)
        if not sockets.wanted(ends):
            return
        listener = socket_of(fd)
        backlog, limit = listener.sk_ack_backlog, listener.sk_max_ack_backlog
        accepts.emit(Accept(backlog=backlog, limit=limit, ends=ends))

    return bpf


TOOL = EventTool(
    name="tcpaccept",
    doc=__doc__,
    section="10.3.12",
    tracing="accepted TCP connections",
    options=ConnectionOptions,
    build=build,
    drop_labels={"accepts": "connections"},
    record=Accept,
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("COMM", 12),
        *ends_columns(remote_first=True),
        Column("IP", key="ends.version", field="ip_version", type="int", printed=False),
        Column("BL", key=lambda accept: f"{accept.backlog}/{accept.limit}", field=None),
        Column("BACKLOG", printed=False),
        Column("LIMIT", field="backlog_limit", printed=False),
    ),
    examples=(
        Example("tcpaccept", "every connection that is accepted"),
        Example("tcpaccept -L 80,443", "only on these ports"),
        Example("tcpaccept -p 181 --json", "only by process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpaccept.open(pid=42)
