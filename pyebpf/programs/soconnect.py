"""Socket connections: a line for each connect(2), with its address, latency and result.

FAM, ADDRESS and PORT are those of the address that the process gave, of any family: for UNIX sockets ADDRESS is the
path, or @NAME in the abstract namespace. LAT(us) is the time in the call. A connection that goes on in the background
has the result EINPROGRESS.

Overhead: two probes and two map operations for each connect(2).
"""

from __future__ import annotations

from pyebpf import BPF, Struct, char, comm, errno_name, field, now, pid, s32, u32, u64
from pyebpf.endpoints import SocketAddress, sockaddr
from pyebpf.filters import TaskFilter
from pyebpf.programs._sockets import RESULT, address_columns
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, events_of, failures_option


class Connect(Struct):
    """A call that returned: `result` is 0 or an error number negated; times in nanoseconds."""

    time: u64
    elapsed: u64
    pid: u32
    result: s32
    comm: str = field(char[16])
    to: SocketAddress

    @property
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result else None


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which calls to report."""

    failed: bool = failures_option("only failed calls")


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    connects = bpf.ringbuf(Connect)

    @bpf.system_call("connect")
    def on_connect(uservaddr: int, addrlen: int, retval: int, elapsed: int) -> None:
        if not tasks.wanted() or (options.failed and retval == 0):
            return
        to = sockaddr(uservaddr, addrlen)
        connects.emit(Connect(time=now(), elapsed=elapsed, pid=pid(), result=retval, comm=comm(), to=to))

    return bpf


TOOL = EventTool(
    name="soconnect",
    doc=__doc__,
    section="10.3.4",
    tracing="connect(2)",
    options=Options,
    build=build,
    drop_labels={"connects": "calls"},
    records=events_of("connects", "time"),
    record=Connect,
    time="time",
    columns=(
        Column("PID", 7),
        Column("PROCESS", 16, key="comm"),
        *address_columns("to"),
        Column("LAT(us)", 8, ">", key="elapsed", scale=1000, decimals=0, field="latency_ns", drawn=True),
        RESULT,
    ),
    examples=(
        Example("soconnect", "every connect(2) on the machine"),
        Example("soconnect -x", "only those that failed"),
        Example("soconnect --comm ssh --json", "of processes with ssh in their names"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: soconnect.open(pid=42)
