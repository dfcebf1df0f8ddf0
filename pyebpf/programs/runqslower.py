"""Threads that wait long for a processor: a line for each wait above a threshold.

The time runs from a thread's wakeup, or from when another takes its processor, until it runs. Waits that began before
tracing did are left out.

Overhead: 0.1 us for each wakeup and for each context switch on the machine; the kernel's cost of reaching a probe comes
on top.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, RawTracepointContext, Struct, char, field, now, u32, u64
from pyebpf.programs._scheduler import Waits, forget
from pyebpf.tool import (
    Column,
    EventTool,
    Example,
    argument,
    comm_option,
    dataclass,
    flag,
    pid_option,
    tid_option,
)


class Wait(Struct):
    """A wait that ended: when, of which thread, after `elapsed` nanoseconds, and which thread ran before it."""

    time: u64
    elapsed: u64
    pid: u32
    tid: u32
    previous_tid: u32
    comm: str = field(char[16])
    previous_comm: str = field(char[16])


#: Microseconds, whose nanoseconds fit 64 bits.
LONGEST = (1 << 63) // 1000


@dataclass(frozen=True)
class Options:
    """Options: which waits to report."""

    min_us: int = argument("min_us", default=10_000, help="the least wait, in microseconds", minimum=0, maximum=LONGEST)
    pid: int | None = pid_option()
    tid: int | None = tid_option()
    comm: str | None = comm_option()
    previous: bool = flag("-P", "--previous", help="also the thread that ran before", output_only=True)


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    slow = bpf.ringbuf(Wait, name="waits")

    def wanted(task: KernelObject) -> bool:
        if options.comm is not None and options.comm not in task.comm:
            return False
        return (options.pid is None or task.tgid == options.pid) and (options.tid is None or task.pid == options.tid)

    waits = Waits(bpf, wanted)

    @bpf.btf_tracepoint("sched_switch")
    def on_switch(ctx: RawTracepointContext) -> None:
        prev, task = ctx.prev, ctx.next
        elapsed = waits.end(ctx)
        if elapsed is not None and elapsed >= options.min_us * 1000:
            slow.emit(
                Wait(
                    time=now(),
                    elapsed=elapsed,
                    pid=task.tgid,
                    tid=task.pid,
                    previous_tid=prev.pid,
                    comm=task.comm,
                    previous_comm=prev.comm,
                )
            )

    return bpf


TOOL = EventTool(
    name="runqslower",
    doc=__doc__,
    tracing="long waits for a processor",
    options=Options,
    build=build,
    drop_labels={"began": "waits of further threads", "waits": "long waits"},
    record=Wait,
    columns=(
        Column("TIME", 8),
        Column("COMM", 16),
        Column("TID", 7),
        Column("PID", 7, printed=False),
        Column("LAT(us)", 14, ">", key="elapsed", scale=1000, decimals=0, field="latency_ns", drawn=True),
        Column("PREV COMM", 16, key="previous_comm", printed="previous"),
        Column("PREV TID", 8, key="previous_tid", printed="previous"),
    ),
    reset=forget,
    examples=(
        Example("runqslower", "waits of 10 ms and more"),
        Example("runqslower 1000", "waits of 1 ms and more"),
        Example("runqslower -P 500", "with the thread that ran before"),
        Example("runqslower --comm nginx", "only threads of such a name"),
        Example("runqslower -p 181", "only threads of process 181"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: runqslower.open(min_us=1000)
