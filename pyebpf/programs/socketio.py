"""Socket I/O by process, direction, protocol and port: counts and bytes.

Counts each message that a process receives (read) or sends (write), by whatever system call. PROTO is the kernel's name
for the socket's protocol, PORT the remote port, `-` for sockets without one. Calls that fail are not counted.

Overhead: a probe and a map operation for each message.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, comm, field, pid, u16, u32
from pyebpf.filters import TaskFilter
from pyebpf.programs._messages import Messages, direction_name
from pyebpf.programs._sockets import is_ip
from pyebpf.tool import Column, Example, SummaryTool, TaskOptions, counts_of


class Key(Struct):
    """Key of a count: a process, a direction, and the socket's properties; port 0 for none."""

    pid: u32
    direction: u16
    port: u16
    comm: str = field(char[16])
    protocol: str = field(char[32])


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


TOOL = SummaryTool(
    name="socketio",
    doc=__doc__,
    section="10.3.6",
    tracing="socket I/O",
    options=TaskOptions,
    build=build,
    drop_labels={"io": "messages of other sockets"},
    snapshot=counts_of("io", direction=direction_name, port=lambda port: port or None),
    record=Key,
    columns=(
        Column("PID", 7),
        Column("PROCESS", 16, key="comm"),
        Column("DIR", 5, key="direction", type="str"),
        Column("PROTO", 11, key="protocol", cut=False),
        Column("PORT", 5, ">", type="int | None"),
        Column("COUNT", 8, ">", type="int"),
        Column("BYTES", 12, ">", key="total", field="total_bytes", type="int"),
    ),
    examples=(
        Example("socketio", "socket I/O until Ctrl-C"),
        Example("socketio 1 10", "each second, ten times"),
        Example("socketio -p 181 --json", "of process 181, an object a row"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: socketio.open(pid=42)
