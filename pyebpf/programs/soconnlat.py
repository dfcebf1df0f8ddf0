"""Latency of TCP connections by the stack of the process that connects: a histogram for each.

The time runs from the first SYN until the connection is established, of blocking and of non-blocking sockets alike;
the process may learn of it later. The stack is that of connect(2). Connections that fail are left out.

Overhead: a probe for each change of a TCP state, two map operations and a stack for each connection that is opened.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, TcpState, char, comm, field, now, pid, s32, u32, u64, ustack
from pyebpf.filters import TaskFilter
from pyebpf.in_flight import LatencyHistogram
from pyebpf.tool import USER_STACK, Example, SummaryTool, TaskLatencyOptions, histograms_of


class Key(Struct):
    """Key of a histogram: the process, and the number of the stack by which it connected."""

    pid: u32
    stack: s32
    comm: str = field(char[16])


class Begun(Struct):
    """A connection that is being opened."""

    time: u64
    key: Key


def build(options: TaskLatencyOptions) -> BPF:
    """The probe and its maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    opening = bpf.hash(key=u64, value=Begun, name="opening")
    latency = LatencyHistogram(bpf, options, key=Key)

    @bpf.btf_tracepoint("inet_sock_set_state")
    def on_state(sk: KernelObject, newstate: int) -> None:
        if newstate == TcpState.SYN_SENT:
            # connect(2) sets this state, and so does the first send of TCP fast open: the process is the current one.
            if tasks.wanted():
                opening[sk] = Begun(time=now(), key=Key(pid=pid(), stack=ustack(), comm=comm()))
            return
        begun = opening.get(sk)
        if begun is None:
            return
        if newstate == TcpState.ESTABLISHED:
            latency.add(now() - begun.time, begun.key)
        del opening[sk]

    return bpf


TOOL = SummaryTool(
    name="soconnlat",
    doc=__doc__,
    section="10.3.9",
    tracing="the latency of TCP connections",
    options=TaskLatencyOptions,
    build=build,
    drop_labels={"opening": "connections that are being opened", "latency": "connections by other stacks"},
    snapshot=histograms_of("latency", stack=USER_STACK),
    examples=(
        Example("soconnlat", "histograms when Ctrl-C ends it"),
        Example("soconnlat -m 10", "every ten seconds, in milliseconds"),
        Example("soconnlat --comm java", "of processes with java in their names"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: soconnlat.open(pid=42)
