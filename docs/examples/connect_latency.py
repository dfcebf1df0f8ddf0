"""connect(2) calls: a line for each, with the process, the address, the latency and the result.

Overhead: two probes and two map operations for each connect(2).
"""

from __future__ import annotations

from pyebpf import BPF, Struct, char, comm, errno_name, field, now, pid, s32, u32, u64
from pyebpf.endpoints import SocketAddress, sockaddr
from pyebpf.tool import Column, EventTool, Example, dataclass, events_of, failures_option, pid_option


class Connect(Struct):
    """A call that returned: when, with `error`, None if it succeeded, after `elapsed` nanoseconds."""

    time: u64
    pid: u32
    result: s32
    elapsed: u64
    comm: str = field(char[16])
    to: SocketAddress

    @property
    def error(self) -> str | None:
        """The error's name, None if it succeeded."""
        return errno_name(-self.result) if self.result else None


@dataclass(frozen=True)
class Options:
    """Which calls to report."""

    pid: int | None = pid_option()
    failed: bool = failures_option("only failed calls")


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf = BPF()
    connects = bpf.ringbuf(Connect)

    @bpf.system_call("connect")
    def on_connect(uservaddr: int, addrlen: int, retval: int, elapsed: int) -> None:
        if options.pid is not None and pid() != options.pid:
            return
        if options.failed and retval == 0:
            return
        to = sockaddr(uservaddr, addrlen)
        connects.emit(Connect(time=now(), pid=pid(), result=retval, elapsed=elapsed, comm=comm(), to=to))

    return bpf


def outcome(call: Connect) -> str:
    """The error's name; text has a word in place of None."""
    return call.error or "Success"


TOOL = EventTool(
    name="connect-latency",
    doc=__doc__,
    tracing="connect(2)",
    options=Options,
    build=build,
    drop_labels={"connects": "calls"},
    records=events_of("connects", "time"),
    record=Connect,
    time="time",
    columns=(
        Column("PID", 7),
        Column("COMM", 16),
        Column("LAT(us)", 8, ">", key="elapsed", scale=1000, decimals=0, field="latency_ns"),
        Column("RESULT", 12, key=outcome, field="error", value="error"),
        Column("ADDRESS", key="to", field="address"),
    ),
    examples=(Example("connect-latency -x", "only failed calls"),),
)
