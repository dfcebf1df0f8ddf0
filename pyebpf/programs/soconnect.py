"""Socket connections: a line for each connect(2), with its address, latency and result.

FAM, ADDRESS and PORT are those of the address that the process gave, of any family: for UNIX sockets ADDRESS is the
path, or @NAME in the abstract namespace. LAT(us) is the time in the call. A connection that goes on in the background
has the result EINPROGRESS.

Overhead: two probes and two map operations for each connect(2).
"""

from __future__ import annotations

from pyebpf import BPF, u64
from pyebpf.endpoints import SocketAddress, sockaddr
from pyebpf.programs._sockets import address_columns
from pyebpf.tasks import Call, CallFilter
from pyebpf.tool import CallOptions, Column, EventTool, Example, result_column


class Connect(Call):
    """A call that returned after `elapsed` nanoseconds: `result` is 0 or an error number negated."""

    elapsed: u64
    to: SocketAddress


def build(options: CallOptions) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, calls = BPF(), CallFilter(options)
    connects = bpf.ringbuf(Connect)

    @bpf.system_call("connect")
    def on_connect(uservaddr: int, addrlen: int, retval: int, elapsed: int) -> None:
        if calls.wanted(retval):
            to = sockaddr(uservaddr, addrlen)
            connects.emit(Connect(result=retval, elapsed=elapsed, to=to))

    return bpf


TOOL = EventTool(
    name="soconnect",
    doc=__doc__,
    section="10.3.4",
    tracing="connect(2)",
    options=CallOptions,
    build=build,
    drop_labels={"connects": "calls"},
    record=Connect,
    columns=(
        Column("PID", 7),
        Column("PROCESS", 16, key="comm"),
        *address_columns("to"),
        Column("LAT(us)", 8, ">", key="elapsed", scale=1000, decimals=0, field="latency_ns", drawn=True),
        result_column(),
    ),
    examples=(
        Example("soconnect", "every connect(2) on the machine"),
        Example("soconnect -x", "only those that failed"),
        Example("soconnect --comm ssh --json", "of processes with ssh in their names"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: soconnect.open(pid=42)
