"""System calls by name or by process: counts, and with -L their total time.

Counted when the call begins (with -x and -L, when it returns), so a call that never returns counts as well.

Overhead: 0.01 us for each system call of the machine, 0.03 us with -P, 0.16 us with -L; the kernel's way to a probe
comes on top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, Struct, char, comm, field, now, pid, syscall_name, u32, u64
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.tool import (
    Column,
    Example,
    SummaryTool,
    dataclass,
    failures_option,
    flag,
    milliseconds_option,
    option,
    pid_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TOOL", "Count", "Options", "build", "open"]


class Process(Struct):
    """Who called."""

    pid: u32
    comm: str = field(char[16])


class Call(Struct):
    """A call that has begun."""

    began: u64
    number: u32


@dataclass(frozen=True)
class Count:
    """A row: a system call's name, or a process; `nanoseconds` is None unless latency was asked for."""

    name: str
    pid: int | None
    count: int
    nanoseconds: int | None


@dataclass(frozen=True)
class Options:
    """Options: what to count, and how to show it."""

    pid: int | None = pid_option()
    top: int = option("-T", "--top", default=10, metavar="TOP", help="show only this many (default 10)", minimum=1)
    failed: bool = failures_option("only failed system calls")
    latency: bool = flag("-L", "--latency", help="collect the time spent, too")
    by_process: bool = flag("-P", "--process", help="count by process instead of by system call")
    milliseconds: bool = milliseconds_option()


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    key = Process if options.by_process else u32
    counts = bpf.percpu_hash(key=key, value=u64)
    # A hash for each processor takes milliseconds to make: what the options leave unused is left out.
    if options.latency:
        times = bpf.percpu_hash(key=key, value=u64)
    if options.failed or options.latency:
        # By the kernel's own numbers: from inside a pid namespace, whatever is outside has 0 for tid().
        pending = bpf.hash(key=u64, value=Call)

    @bpf.raw_tracepoint("sys_enter")
    def on_enter(id: int) -> None:  # noqa: A002 - the kernel's name for it
        if options.pid is not None and pid() != options.pid:
            return
        if options.failed or options.latency:
            pending[get_current_pid_tgid()] = Call(began=now(), number=id)
        elif options.by_process:
            counts[Process(pid=pid(), comm=comm())] += 1
        else:
            counts[id] += 1

    if options.failed or options.latency:

        @bpf.raw_tracepoint("sys_exit")
        def on_exit(ret: int) -> None:
            thread = get_current_pid_tgid()
            call = pending.get(thread)
            if call is None:
                return
            elapsed = now() - call.began
            number = call.number
            del pending[thread]
            if options.failed and not -4095 <= ret < 0:
                return
            if options.by_process:
                process = Process(pid=pid(), comm=comm())
                counts[process] += 1
                if options.latency:
                    times[process] += elapsed
            else:
                counts[number] += 1
                if options.latency:
                    times[number] += elapsed

    return bpf


def snapshot(bpf: BPF, options: Options) -> Iterator[Count]:
    """The interval's counts, the most frequent (with -L the longest) first."""
    times = dict(bpf["times"].interval().items()) if options.latency else {}
    rows = []
    for key, count in bpf["counts"].interval().items():
        nanoseconds = times.get(key, 0) if options.latency else None
        name, number = (key.comm, key.pid) if options.by_process else (syscall_name(key), None)
        rows.append(Count(name, number, count, nanoseconds))
    rows.sort(key=lambda row: (row.nanoseconds or 0, row.count, row.name), reverse=True)
    yield from rows[: options.top]


def columns(options: Options) -> tuple[Column, ...]:
    """The book's columns."""
    name = (
        [Column("PID", 7), Column("COMM", 16, key="name")]
        if options.by_process
        else [Column("SYSCALL", 22, key="name")]
    )
    unit, scale = ("ms", 1_000_000) if options.milliseconds else ("us", 1_000)
    time = [Column(f"TIME({unit})", 16, ">", key="nanoseconds", scale=scale, decimals=3)] if options.latency else []
    return (*name, Column("COUNT", 8, ">"), *time)


TOOL = SummaryTool(
    name="syscount",
    doc=__doc__,
    tracing="system calls",
    options=Options,
    build=build,
    drop_labels={
        "counts": "calls of other kinds",
        "times": "times of calls of other kinds",
        "pending": "calls under way",
    },
    snapshot=snapshot,
    columns=columns,
    examples=(
        Example("syscount", "the ten most frequent until Ctrl-C"),
        Example("syscount -P 1", "by process, each second"),
        Example("syscount -L -x 5 3", "failed calls and their time, three times"),
        Example("syscount -p 181 -T 20", "the twenty most frequent of process 181"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: syscount.open(pid=42)
