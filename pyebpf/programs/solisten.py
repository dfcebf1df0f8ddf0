"""Sockets that listen: a line for each listen(2), with its backlog and address.

PROTO is the kernel's name for the socket's protocol, BACKLOG what the process asked for: the kernel limits it to
net.core.somaxconn. For UNIX sockets ADDR is the path, or @NAME in the abstract namespace.

Overhead: two probes for each listen(2).
"""

from __future__ import annotations

from pyebpf import BPF, char, field, s32, u32
from pyebpf.endpoints import SocketAddress  # noqa: TC001 - the layout of the record needs it
from pyebpf.programs._sockets import address_of, bound_to, port_of, socket_of
from pyebpf.tasks import Call, CallFilter
from pyebpf.tool import CallOptions, Column, EventTool, Example, dataclass, flag, result_column


class Listen(Call):
    """A call that returned: `result` is 0 or an error number negated, `limit` the backlog that the socket has now."""

    on: SocketAddress
    protocol: str = field(char[32])
    backlog: s32
    limit: u32
    netns: u32


@dataclass(frozen=True)
class Options(CallOptions):
    """Options: which calls to report."""

    show_netns: bool = flag("-n", "--show-netns", help="a column with the socket's network namespace", output_only=True)


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, calls = BPF(), CallFilter(options)
    listens = bpf.ringbuf(Listen)

    @bpf.system_call("listen")
    def on_listen(fd: int, backlog: int, retval: int) -> None:
        if calls.wanted(retval):
            sk = socket_of(fd)
            protocol, netns = sk.__sk_common.skc_prot.name, sk.__sk_common.skc_net.net.ns.inum
            limit, on = sk.sk_max_ack_backlog, bound_to(sk)
            listens.emit(Listen(result=retval, on=on, protocol=protocol, backlog=backlog, limit=limit, netns=netns))

    return bpf


TOOL = EventTool(
    name="solisten",
    doc=__doc__,
    section="10.3.31",
    tracing="listen(2)",
    options=Options,
    build=build,
    drop_labels={"listens": "calls"},
    record=Listen,
    columns=(
        Column("PID", 7),
        Column("COMM", 16),
        Column("NETNS", 10, key=lambda of: of.netns or None, field="netns", type="int | None", printed="show_netns"),
        Column("PROTO", 11, key=lambda of: of.protocol or None, cut=False, field="protocol", type="str | None"),
        Column("BACKLOG", 7, ">"),
        Column("LIMIT", printed=False),
        Column("PORT", 5, ">", key=port_of("on"), field="port", type="int | None"),
        Column("ADDR", 15, key=address_of("on"), cut=False, field="address", type="str | None"),
        result_column(),
    ),
    examples=(
        Example("solisten", "every listen(2) on the machine"),
        Example("solisten -x", "only those that failed"),
        Example("solisten -n", "with network namespaces"),
        Example("solisten -p 181 --json", "of process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: solisten.open(pid=42)
