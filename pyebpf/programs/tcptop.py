"""Throughput of TCP by process and connection: a screen each second, the busiest on top.

RX_KB and TX_KB are the data that processes received and sent in the interval, in units of 1024 bytes, counted when
their calls return: data that waits in a buffer is not received yet, and what is sent may not be acknowledged.

Overhead: one map operation for each call that sends or receives over TCP, nothing for packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, Struct, char, comm, field, pid, u32
from pyebpf.endpoints import Endpoints, endpoints
from pyebpf.filters import SocketFilter, TaskFilter
from pyebpf.programs._tcp import IPPROTO_TCP, joined_ends_columns
from pyebpf.programs._transfers import Transfers
from pyebpf.tool import Column, ConnectionOptions, Example, Record, SummaryTool, dataclass, flag, load_average, option

if TYPE_CHECKING:
    from collections.abc import Callable


class Flow(Struct):
    """Key of the counts: a process's thread and a connection."""

    pid: u32
    comm: str = field(char[16])
    ends: Endpoints


@dataclass(frozen=True)
class Traffic(Record):
    """Bytes that a process sent and received over a connection in an interval."""

    pid: int
    comm: str
    ends: Endpoints
    sent: int
    received: int

    def by(self, order: str) -> int:
        """The bytes that an order goes by: "all", "sent" or "received"."""
        return self.sent + self.received if order == "all" else int(getattr(self, order))


@dataclass(frozen=True)
class Options(ConnectionOptions):
    """Options: which connections to show, and how."""

    sort: str = option(
        "-s", "--sort", default="all", choices=("all", "sent", "received"), help="the bytes that order the rows"
    )
    no_summary: bool = flag("-S", "--nosummary", help="leave the load average out", output_only=True)


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks, sockets = Transfers(IPPROTO_TCP), TaskFilter(options), SocketFilter(options)

    def counting(name: str) -> Callable[[KernelObject, int], None]:
        flows = bpf.counter(key=Flow, name=name)

        def count(sk: KernelObject, size: int) -> None:
            if tasks.wanted():
                ends = endpoints(sk)
                if sockets.wanted(ends):
                    flows[Flow(pid=pid(), comm=comm(), ends=ends)].add(size)

        return count

    bpf.sent, bpf.received = counting("sent"), counting("received")
    return bpf


def snapshot(bpf: BPF, options: Options) -> list[Traffic]:
    """The interval's traffic, the most first."""
    sent, received = dict(bpf["sent"].interval()), dict(bpf["received"].interval())
    rows = [
        Traffic(flow.pid, flow.comm, flow.ends, sent.get(flow, 0), received.get(flow, 0))
        for flow in {**sent, **received}
    ]
    return sorted(rows, key=lambda row: (-row.by(options.sort), row.pid, row.ends.local_port))


def heading(bpf: BPF, options: Options) -> str | None:
    """The load average."""
    return None if options.no_summary else load_average(bpf, options)


TOOL = SummaryTool(
    name="tcptop",
    doc=__doc__,
    section="10.3.14",
    tracing="TCP throughput",
    options=Options,
    build=build,
    drop_labels={"sent": "calls on further connections", "received": "calls on further connections"},
    snapshot=snapshot,
    record=Traffic,
    screen=True,
    heading=heading,
    columns=(
        Column("PID", 7),
        Column("COMM", 12),
        *joined_ends_columns(headings=("LADDR", "RADDR")),
        Column("RX_KB", 6, ">", key="received", scale=1024, decimals=0, field="received_bytes"),
        Column("TX_KB", 6, ">", key="sent", scale=1024, decimals=0, field="sent_bytes"),
    ),
    examples=(
        Example("tcptop", "a screen each second"),
        Example("tcptop -C 5", "every five seconds, one below the other"),
        Example("tcptop -L 443 -r 40", "of this local port, 40 rows"),
        Example("tcptop -s received -S", "who receives most on top, no load average"),
        Example("tcptop --json 1 10", "ten seconds, an object a connection"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcptop.open(pid=42)
