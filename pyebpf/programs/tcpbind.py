"""Addresses that TCP sockets are bound to: a line for each bind(2).

LADDR and LPORT are what the socket has when the call returns: the port that the kernel chose if the process asked for
port 0. Of a call that failed they are what the process asked for. Ports that connect(2) and listen(2) choose by
themselves are not shown.

Overhead: two probes for each bind(2) of any socket.
"""

from __future__ import annotations

from pyebpf import BPF, u16
from pyebpf.endpoints import SocketAddress, endpoints, sockaddr
from pyebpf.programs._sockets import is_ip, socket_of
from pyebpf.programs._tcp import IPPROTO_MPTCP, IPPROTO_TCP
from pyebpf.tasks import Call, CallFilter
from pyebpf.tool import CallOptions, Column, EventTool, Example, dataclass, ports_option, result_column


class Bind(Call):
    """A call that returned: `result` is 0 or an error number negated, `asked` the port that the process gave."""

    asked: u16
    local: SocketAddress


@dataclass(frozen=True)
class Options(CallOptions):
    """Options: which calls to report."""

    local_ports: tuple[int, ...] = ports_option("-L", "--localport", "local")


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, calls = BPF(), CallFilter(options)
    binds = bpf.ringbuf(Bind)

    @bpf.system_call("bind")
    def on_bind(fd: int, umyaddr: int, addrlen: int, retval: int) -> None:
        if not calls.wanted(retval):
            return
        sk = socket_of(fd)
        if sk.sk_protocol not in (IPPROTO_TCP, IPPROTO_MPTCP) or not is_ip(sk.__sk_common.skc_family):
            return
        local = sockaddr(umyaddr, addrlen)
        asked = local.port
        if retval == 0:
            ends = endpoints(sk)
            local.family = ends.family
            local.high, local.low, local.port = ends.local_high, ends.local_low, ends.local_port
        if not options.local_ports or local.port in options.local_ports:
            binds.emit(Bind(result=retval, asked=asked, local=local))

    return bpf


TOOL = EventTool(
    name="tcpbind",
    doc=__doc__,
    tracing="bind(2) of TCP sockets",
    options=Options,
    build=build,
    drop_labels={"binds": "calls"},
    record=Bind,
    columns=(
        Column("PID", 7),
        Column("COMM", 16),
        Column("LADDR", 15, key="local.address", cut=False, field="local_address"),
        Column("LPORT", 5, ">", key="local.port", field="local_port"),
        Column("ASKED", key="asked", field="requested_port", printed=False),
        result_column(),
    ),
    examples=(
        Example("tcpbind", "every bind(2) of a TCP socket"),
        Example("tcpbind -x", "only those that failed"),
        Example("tcpbind -L 80,443 --json", "to these ports, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpbind.open(pid=42)
