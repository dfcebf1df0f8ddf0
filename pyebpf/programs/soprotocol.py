"""New socket connections by protocol: counts of connect(2) and accept(2) by process and transport.

Counts each connect(2) that succeeds or goes on in the background (EINPROGRESS), and each accept(2) and accept4(2) that
succeeds. PROTOCOL is the socket's protocol, without IPPROTO_; a number for families other than IP, of which each
numbers its own. TRANSPORT is the kernel's name for the code that handles the socket: TCPv6, UNIX-STREAM.

Overhead: two probes for each connect(2) and accept(2), and nothing for the data of the connections.
"""

from __future__ import annotations

from typing import Any

from pyebpf import BPF, Struct, char, comm, field, u16
from pyebpf.endpoints import AF_INET, AF_INET6
from pyebpf.programs._families import protocol_name
from pyebpf.programs._new_sockets import call_name, count_new_sockets
from pyebpf.tool import Column, Example, SummaryTool, TaskOptions, counts_of


class Key(Struct):
    """Key of a count: the call, 0 for connect(2) and 1 for accept(2), the socket's properties, and the process."""

    call: u16
    family: u16
    protocol: u16
    comm: str = field(char[16])
    transport: str = field(char[32])


def build(options: TaskOptions) -> BPF:
    """The probes and the counts; nothing is loaded yet."""
    bpf = BPF()
    sockets = bpf.counter(key=Key, name="sockets")

    def count(call: int, sk: Any) -> None:
        common = sk.__sk_common
        key = Key(
            call=call,
            family=common.skc_family,
            protocol=sk.sk_protocol,
            comm=comm(),
            transport=common.skc_prot.name,
        )
        sockets[key].add()

    count_new_sockets(options, bpf, count)
    return bpf


def protocol(row: Any) -> str:
    """The name of a protocol of IP; the number of any other."""
    return protocol_name(row.protocol) if row.family in (AF_INET, AF_INET6) else str(row.protocol)


TOOL = SummaryTool(
    name="soprotocol",
    doc=__doc__,
    section="10.3.3",
    tracing="socket connections",
    options=TaskOptions,
    build=build,
    drop_labels={"sockets": "connections of other processes"},
    snapshot=counts_of("sockets"),
    record=Key,
    columns=(
        Column("CALL", 7, key=call_name, field="call", type="str"),
        Column("PROCESS", 16, key="comm"),
        Column("PROTOCOL", 8, key=protocol, field="protocol", type="str"),
        Column("TRANSPORT", 16),
        Column("COUNT", 8, ">", type="int"),
    ),
    examples=(
        Example("soprotocol", "new connections until Ctrl-C"),
        Example("soprotocol 1", "each second"),
        Example("soprotocol -p 181 --json", "of process 181, an object a row"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: soprotocol.open(pid=42)
