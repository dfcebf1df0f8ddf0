"""Accepted socket connections: a line for each accept(2) and accept4(2), with the peer's address and the result.

FAM, ADDRESS and PORT are the peer's, whether or not the process asked for them. Peers of UNIX sockets rarely have a
name, so ADDRESS is the listener's path there, or @NAME in the abstract namespace. A call that failed has the listener's
family and no address.

Overhead: a probe for each accept(2) and a record for each that returns.
"""

from __future__ import annotations

from pyebpf import BPF, u16
from pyebpf.endpoints import SocketAddress, endpoints
from pyebpf.programs._families import family_name
from pyebpf.programs._sockets import accepted_from, is_ip, no_address, socket_of
from pyebpf.tasks import Call, CallFilter
from pyebpf.tool import CallOptions, Column, EventTool, Example, result_column


class Accept(Call):
    """A call that returned: `result` is the new descriptor or an error number negated."""

    local_port: u16
    peer: SocketAddress

    @property
    def address(self) -> str | None:
        """The peer's IP address, or the path of a UNIX listener; None of a call that failed."""
        return None if self.result < 0 else str(self.peer.address or self.peer.path or "") or None

    @property
    def port(self) -> int | None:
        """The peer's port, None for families without ports."""
        return None if self.result < 0 or self.peer.address is None else self.peer.port


def build(options: CallOptions) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, calls = BPF(), CallFilter(options)
    accepts = bpf.ringbuf(Accept)

    @bpf.system_call("accept", "accept4")
    def on_accept(fd: int, retval: int) -> None:
        if not calls.wanted(retval):
            return
        sk = socket_of(fd if retval < 0 else retval)
        peer = no_address(sk) if retval < 0 else accepted_from(sk)
        local_port = endpoints(sk).local_port if retval >= 0 and is_ip(peer.family) else 0
        accepts.emit(Accept(result=retval, local_port=local_port, peer=peer))

    return bpf


TOOL = EventTool(
    name="soaccept",
    doc=__doc__,
    section="10.3.5",
    tracing="accept(2)",
    options=CallOptions,
    build=build,
    drop_labels={"accepts": "calls"},
    record=Accept,
    columns=(
        Column("PID", 7),
        Column("PROCESS", 16, key="comm"),
        Column("FAM", 7, key=lambda call: family_name(call.peer.family), field="family", type="str"),
        Column("ADDRESS", 16, cut=False),
        Column("PORT", 5, ">"),
        Column("LPORT", key=lambda call: call.local_port or None, field="local_port", type="int | None", printed=False),
        result_column(),
    ),
    examples=(
        Example("soaccept", "every accept(2) on the machine"),
        Example("soaccept -x", "only those that failed"),
        Example("soaccept -p 181 --json", "of process 181, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: soaccept.open(pid=42)
