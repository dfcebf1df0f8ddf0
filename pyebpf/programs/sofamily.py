"""New socket connections by address family: counts of connect(2) and accept(2) by process.

Counts each connect(2) that succeeds or goes on in the background (EINPROGRESS), and each accept(2) and accept4(2) that
succeeds. FAMILY is the socket's address family, without AF_.

Overhead: two probes for each connect(2) and accept(2), and nothing for the data of the connections.
"""

from __future__ import annotations

from typing import Any

from pyebpf import BPF, Struct, char, comm, field, u16
from pyebpf.programs._families import family_name
from pyebpf.programs._new_sockets import call_name, count_new_sockets
from pyebpf.tool import Column, Example, SummaryTool, TaskOptions, counts_of


class Key(Struct):
    """Key of a count: the call, 0 for connect(2) and 1 for accept(2), the number of the family, and the process."""

    call: u16
    family: u16
    comm: str = field(char[16])


def build(options: TaskOptions) -> BPF:
    """The probes and the counts; nothing is loaded yet."""
    bpf = BPF()
    sockets = bpf.counter(key=Key, name="sockets")

    def count(call: int, sk: Any) -> None:
        sockets[Key(call=call, family=sk.__sk_common.skc_family, comm=comm())].add()

    count_new_sockets(options, bpf, count)
    return bpf


TOOL = SummaryTool(
    name="sofamily",
    doc=__doc__,
    section="10.3.2",
    tracing="socket connections",
    options=TaskOptions,
    build=build,
    drop_labels={"sockets": "connections of other processes"},
    snapshot=counts_of("sockets"),
    record=Key,
    columns=(
        Column("CALL", 7, key=call_name, field="call", type="str"),
        Column("PROCESS", 16, key="comm"),
        Column("FAMILY", 10, key=lambda row: family_name(row.family), field="family", type="str"),
        Column("COUNT", 8, ">", type="int"),
    ),
    examples=(
        Example("sofamily", "new connections until Ctrl-C"),
        Example("sofamily 1", "each second"),
        Example("sofamily --comm ssh", "of processes with ssh in their names"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: sofamily.open(pid=42)
