"""UDP connections: a line for each that ends, with its process, addresses, bytes and lifespan.

A connection lasts from connect(2) until the socket is closed by its last holder, or connected again. It belongs to the
process that connected it. TX_B and RX_B are the bytes that processes sent and received through the socket, whatever the
address; datagrams that wait when it is closed are not received. Connections of before udplife are not shown.

Overhead: one or two map operations for each call that sends or receives over UDP, nothing for packets.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, TcpState, u64
from pyebpf.endpoints import Endpoints, endpoints
from pyebpf.filters import SocketFilter, TaskFilter
from pyebpf.programs._sockets import is_ip, socket_of
from pyebpf.programs._tcp import IPPROTO_UDP
from pyebpf.programs._transfers import Transfers
from pyebpf.tasks import Lifespan, Lifespans
from pyebpf.tool import Column, ConnectionOptions, EventTool, Example, ends_columns, lifespan_column


class Connection(Lifespan):
    """A connection that ended: bytes, and times in nanoseconds of time.monotonic_ns()'s clock."""

    sent: u64
    received: u64
    ends: Endpoints


def build(options: ConnectionOptions) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks, sockets = Transfers(IPPROTO_UDP), TaskFilter(options), SocketFilter(options)
    connections = Lifespans(bpf, Connection, name="open_ones", ended="connections")
    open_ones = connections.under_way

    @bpf.system_call("connect")
    def on_connect(fd: int, retval: int) -> None:
        if retval != 0:
            return
        sk = socket_of(fd)
        if sk.sk_protocol != IPPROTO_UDP or not is_ip(sk.__sk_common.skc_family):
            return
        connections.end(sk)
        # Else the call has ended a connection, with an address of the family AF_UNSPEC.
        if sk.__sk_common.skc_state != TcpState.ESTABLISHED or not tasks.wanted():
            return
        ends = endpoints(sk)
        if sockets.wanted(ends):
            open_ones[sk] = Connection(sent=0, received=0, ends=ends)

    def on_sent(sk: KernelObject, size: int) -> None:
        entry = open_ones.get(sk)
        if entry is not None:
            entry.sent += size

    def on_received(sk: KernelObject, size: int) -> None:
        entry = open_ones.get(sk)
        if entry is not None:
            entry.received += size

    bpf.sent, bpf.received = on_sent, on_received

    # Called through pointers when the last descriptor is closed, in all kernels; the destructors have changed.
    @bpf.function("udp_destroy_sock")
    def on_close(sk: KernelObject) -> None:
        connections.end(sk)

    @bpf.function("udpv6_destroy_sock", optional=True)
    def on_close6(sk: KernelObject) -> None:
        connections.end(sk)

    return bpf


TOOL = EventTool(
    name="udplife",
    doc=__doc__,
    tracing="UDP connections",
    options=ConnectionOptions,
    build=build,
    drop_labels={"open_ones": "connections under way", "connections": "connections"},
    # What a connection sends while the probes are attached one by one is not counted.
    reset=lambda bpf: bpf["open_ones"].clear(),
    record=Connection,
    columns=(
        Column("PID", 7),
        Column("COMM", 10),
        *ends_columns(),
        Column("TX_B", 6, ">", key="sent", field="sent_bytes"),
        Column("RX_B", 6, ">", key="received", field="received_bytes"),
        lifespan_column(),
    ),
    examples=(
        Example("udplife", "every connection that ends"),
        Example("udplife -D 53", "queries of resolvers"),
        Example("udplife -p 181 --json", "of process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: udplife.open(remote_ports=(53,))
