"""UDP sockets that processes connect: a line for each connect(2), with the process and the remote end.

A connected UDP socket sends to one address and receives from it alone; no packet is exchanged. Resolvers connect a
socket for each query. Programs also connect one to learn which local address the kernel would use; getaddrinfo(3) does,
with a remote port of 0 or that of the service.

Overhead: two probes for each connect(2) of any socket, nothing for packets.
"""

from __future__ import annotations

from pyebpf import BPF, TcpState
from pyebpf.endpoints import Endpoints, endpoints
from pyebpf.filters import SocketFilter, TaskFilter
from pyebpf.programs._sockets import is_ip, socket_of
from pyebpf.programs._tcp import IPPROTO_UDP
from pyebpf.tasks import TaskEvent
from pyebpf.tool import Column, ConnectionOptions, EventTool, Example


class Connect(TaskEvent):
    """A socket that was connected; time in nanoseconds of time.monotonic_ns()'s clock."""

    ends: Endpoints


def build(options: ConnectionOptions) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, tasks, sockets = BPF(), TaskFilter(options), SocketFilter(options)
    connects = bpf.ringbuf(Connect)

    @bpf.system_call("connect")
    def on_connect(fd: int, retval: int) -> None:
        if retval != 0 or not tasks.wanted():
            return
        sk = socket_of(fd)
        if sk.sk_protocol != IPPROTO_UDP or not is_ip(sk.__sk_common.skc_family):
            return
        # Else the call has ended a connection, with an address of the family AF_UNSPEC.
        if sk.__sk_common.skc_state == TcpState.ESTABLISHED:
            ends = endpoints(sk)
            if sockets.wanted(ends):
                connects.emit(Connect(ends=ends))

    return bpf


TOOL = EventTool(
    name="udpconnect",
    doc=__doc__,
    section="10.3.20",
    tracing="UDP connections",
    options=ConnectionOptions,
    build=build,
    drop_labels={"connects": "connections"},
    record=Connect,
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("COMM", 14),
        Column("IP", 2, key="ends.version", field="ip_version", type="int"),
        Column("RADDR", 39, key="ends.remote", cut=False, field="remote_address", type="str"),
        Column("RPORT", key="ends.remote_port", field="remote_port", type="int"),
        Column("LADDR", key="ends.local", field="local_address", type="str", printed=False),
        Column("LPORT", key="ends.local_port", field="local_port", type="int", printed=False),
    ),
    examples=(
        Example("udpconnect", "every UDP socket that is connected"),
        Example("udpconnect -D 53", "queries of resolvers"),
        Example("udpconnect -p 181 --json", "of process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: udpconnect.open(remote_ports=(53,))
