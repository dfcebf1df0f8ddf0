"""Accepted socket connections: a line for each accept(2) and accept4(2), with the peer's address and the result.

FAM, ADDRESS and PORT are the peer's, whether or not the process asked for them. Peers of UNIX sockets rarely have a
name, so ADDRESS is the listener's path there, or @NAME in the abstract namespace. A call that failed has the listener's
family and no address.

Overhead: a probe for each accept(2) and a record for each that returns.
"""

from __future__ import annotations

from pyebpf import BPF, Struct, char, comm, errno_name, field, now, pid, s32, u16, u32, u64
from pyebpf.endpoints import SocketAddress, endpoints
from pyebpf.filters import TaskFilter
from pyebpf.programs._families import family_name
from pyebpf.programs._sockets import RESULT, accepted_from, is_ip, socket_of
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, events_of, failures_option


class Accept(Struct):
    """A call that returned: `result` is the new descriptor or an error number negated; time in nanoseconds."""

    time: u64
    pid: u32
    result: s32
    local_port: u16
    comm: str = field(char[16])
    peer: SocketAddress

    @property
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result < 0 else None

    @property
    def address(self) -> str | None:
        """The peer's IP address, or the path of a UNIX listener; None of a call that failed."""
        return None if self.result < 0 else str(self.peer.address or self.peer.path or "") or None

    @property
    def port(self) -> int | None:
        """The peer's port, None for families without ports."""
        return None if self.result < 0 or self.peer.address is None else self.peer.port


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which calls to report."""

    failed: bool = failures_option("only failed calls")


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    accepts = bpf.ringbuf(Accept)

    @bpf.system_call("accept", "accept4")
    def on_accept(fd: int, retval: int) -> None:
        if not tasks.wanted() or (options.failed and retval >= 0):
            return
        sk = socket_of(fd if retval < 0 else retval)
        peer = SocketAddress(high=0, low=0, family=sk.__sk_common.skc_family, port=0, length=0, abstract=0, name="")
        call = Accept(time=now(), pid=pid(), result=retval, local_port=0, comm=comm(), peer=peer)
        if retval >= 0:
            call.peer = accepted_from(sk)
            if is_ip(peer.family):
                call.local_port = endpoints(sk).local_port
        accepts.emit(call)

    return bpf


TOOL = EventTool(
    name="soaccept",
    doc=__doc__,
    section="10.3.5",
    tracing="accept(2)",
    options=Options,
    build=build,
    drop_labels={"accepts": "calls"},
    records=events_of("accepts", "time"),
    record=Accept,
    time="time",
    columns=(
        Column("PID", 7),
        Column("PROCESS", 16, key="comm"),
        Column("FAM", 7, key=lambda call: family_name(call.peer.family), field="family", type="str"),
        Column("ADDRESS", 16, cut=False),
        Column("PORT", 5, ">"),
        Column("LPORT", key=lambda call: call.local_port or None, field="local_port", type="int | None", printed=False),
        RESULT,
    ),
    examples=(
        Example("soaccept", "every accept(2) on the machine"),
        Example("soaccept -x", "only those that failed"),
        Example("soaccept -p 181 --json", "of process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: soaccept.open(pid=42)
