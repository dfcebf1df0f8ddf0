"""Socket statistics: counts of socket events each second.

Counts calls of accept(2), accept4(2), bind(2), connect(2), listen(2), socket(2) and socketpair(2) as they begin, and as
sock_sendmsg and sock_recvmsg the messages that processes send and receive by any call, failed ones included.

Overhead: a probe and a map operation for each event.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, TracepointContext, u32
from pyebpf.filters import TaskFilter
from pyebpf.programs._messages import WRITE, Messages
from pyebpf.tool import Column, Example, SummaryTool, TaskOptions, counts_of

CALLS = ("accept", "accept4", "bind", "connect", "listen", "socket", "socketpair")
MESSAGES = ("sock_recvmsg", "sock_sendmsg")
EVENTS = (*CALLS, *MESSAGES)
#: The number of a call's event, by its tracepoint.
NUMBERS = {f"syscalls:sys_enter_{call}": number for number, call in enumerate(CALLS)}
RECEIVED, SENT = EVENTS.index("sock_recvmsg"), EVENTS.index("sock_sendmsg")


def build(options: TaskOptions) -> BPF:
    """The probes and the counts; nothing is loaded yet."""
    bpf, tasks = Messages(), TaskFilter(options)
    events = bpf.counter(key=u32, name="events")

    @bpf.tracepoint(*NUMBERS)
    def on_call(ctx: TracepointContext) -> None:
        if tasks.wanted():
            events[NUMBERS[ctx.target]].add()

    def count(direction: int, _sk: KernelObject, _size: int) -> None:
        if tasks.wanted():
            events[SENT if direction == WRITE else RECEIVED].add()

    bpf.trace(count)
    return bpf


TOOL = SummaryTool(
    name="sockstat",
    doc=__doc__,
    section="10.3.1",
    tracing="socket events",
    options=TaskOptions,
    build=build,
    drop_labels={"events": "events"},
    snapshot=counts_of("events", by_key=True, event=EVENTS.__getitem__),
    screen=True,
    columns=(Column("EVENT", 14, type="str"), Column("COUNT", 8, ">", type="int")),
    examples=(
        Example("sockstat", "each second, until Ctrl-C"),
        Example("sockstat -C 10 6", "every ten seconds for a minute, one below the other"),
        Example("sockstat -p 181", "of process 181"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: sockstat.open(pid=42)
