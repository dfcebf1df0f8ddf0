"""connect(2) calls: a line for each, with the process, the address, the latency and the result.

Overhead: two probes and two map operations for each connect(2).
"""

from __future__ import annotations

from pyebpf import BPF, u64
from pyebpf.endpoints import SocketAddress, sockaddr
from pyebpf.tasks import Call, CallFilter
from pyebpf.tool import Column, EventTool, Example, dataclass, failures_option, pid_option, result_column


class Connect(Call):
    """A call that returned after `elapsed` nanoseconds."""

    elapsed: u64
    to: SocketAddress


@dataclass(frozen=True)
class Options:
    """Which calls to report."""

    pid: int | None = pid_option()
    failed: bool = failures_option("only failed calls")


def build(options: Options) -> BPF:
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
    name="connect-latency",
    doc=__doc__,
    tracing="connect(2)",
    options=Options,
    build=build,
    drop_labels={"connects": "calls"},
    record=Connect,
    columns=(
        Column("PID", 7),
        Column("COMM", 16),
        Column("LAT(us)", 8, ">", key="elapsed", scale=1000, decimals=0, field="latency_ns"),
        Column("ADDRESS", 24, key="to", field="address"),
        result_column(),
    ),
    examples=(Example("connect-latency -x", "only failed calls"),),
)
