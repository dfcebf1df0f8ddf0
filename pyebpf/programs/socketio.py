"""Socket I/O by process, direction, protocol and port: counts and bytes.

Counts each message that a process receives (read) or sends (write), by whatever system call. PROTO is the kernel's name
for the socket's protocol, PORT the remote port, `-` for sockets without one. Calls that fail are not counted.

Overhead: a probe and a map operation for each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, KernelObject, Struct, char, comm, field, pid, u16, u32
from pyebpf.filters import TaskFilter
from pyebpf.programs._messages import Messages, direction_name
from pyebpf.programs._sockets import is_ip
from pyebpf.tool import Column, Example, Record, SummaryTool, TaskOptions, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator


class Key(Struct):
    """Key of a count: a process, a direction, and the socket's properties; port 0 for none."""

    pid: u32
    direction: u16
    port: u16
    comm: str = field(char[16])
    protocol: str = field(char[32])


@dataclass(frozen=True)
class Count(Record):
    """A row: messages and their bytes; `port` is the remote one, None of a socket without one."""

    pid: int
    comm: str
    direction: str
    protocol: str
    port: int | None
    count: int
    size: int


def build(options: TaskOptions) -> BPF:
    """The probes and the counts; nothing is loaded yet."""
    bpf, tasks = Messages(), TaskFilter(options)
    io = bpf.stats(key=Key, name="io")

    def count(direction: int, sk: KernelObject, size: int) -> None:
        if size < 0 or not tasks.wanted():
            return
        common = sk.__sk_common
        port = common.skc_dport if is_ip(common.skc_family) else 0
        io[Key(pid=pid(), direction=direction, port=port, comm=comm(), protocol=common.skc_prot.name)].add(size)

    bpf.trace(count)
    return bpf


def snapshot(bpf: Any, options: TaskOptions) -> Iterator[Count]:  # noqa: ARG001 - as every tool's
    """The interval's counts, the most bytes last."""
    rows = [
        Count(
            pid=key.pid,
            comm=key.comm,
            direction=direction_name(key.direction),
            protocol=key.protocol,
            port=key.port or None,
            count=found.count,
            size=found.total,
        )
        for key, found in bpf["io"].interval().items()
    ]
    yield from sorted(rows, key=lambda row: (row.size, row.count, row.pid, row.direction))


TOOL = SummaryTool(
    name="socketio",
    doc=__doc__,
    section="10.3.6",
    tracing="socket I/O",
    options=TaskOptions,
    build=build,
    drop_labels={"io": "messages of other sockets"},
    snapshot=snapshot,
    record=Count,
    columns=(
        Column("PID", 7),
        Column("PROCESS", 16, key="comm"),
        Column("DIR", 5, key="direction"),
        Column("PROTO", 11, key="protocol", cut=False),
        Column("PORT", 5, ">"),
        Column("COUNT", 8, ">"),
        Column("BYTES", 12, ">", key="size", field="total_bytes"),
    ),
    examples=(
        Example("socketio", "socket I/O until Ctrl-C"),
        Example("socketio 1 10", "each second, ten times"),
        Example("socketio -p 181 --json", "of process 181, an object a row"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: socketio.open(pid=42)
