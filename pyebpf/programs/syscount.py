"""System calls by name or by process: counts, and with -L their total time.

Calls are counted when they begin (with -x, -e and -L, when they return), so calls that never return are counted as
well.

Overhead: 0.01 us for each system call on the machine, 0.03 us with -P, 0.16 us with -L; the kernel's cost of reaching a
probe comes on top.
"""

from __future__ import annotations

import errno
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyebpf import (
    BPF,
    InvalidValue,
    Struct,
    char,
    comm,
    current_task,
    errno_name,
    field,
    now,
    pid,
    s32,
    syscall_name,
    u32,
    u64,
)
from pyebpf.filters import TaskFilter
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.tool import (
    Column,
    Example,
    Record,
    SummaryTool,
    cgroup_option,
    dataclass,
    failures_option,
    flag,
    milliseconds_option,
    option,
    pid_option,
    tid_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_ERROR = 4095  # MAX_ERRNO of include/linux/err.h
MOST_CALLS = 1024


class Process(Struct):
    """Who called."""

    pid: u32
    comm: str = field(char[16])


class Call(Struct):
    """A call that has begun."""

    began: u64
    number: s32


@dataclass(frozen=True)
class Count(Record):
    """A row: a system call's name, or a process; `nanoseconds` is None unless latency was asked for."""

    name: str
    pid: int | None
    count: int
    nanoseconds: int | None


@dataclass(frozen=True)
class Options:
    """Options: what to count, and how to show it."""

    pid: int | None = pid_option()
    tid: int | None = tid_option()
    ppid: int | None = option("-c", "--ppid", metavar="PPID", help="only children of this process", names="process")
    cgroup: str | None = cgroup_option()
    top: int = option("-T", "--top", default=10, metavar="TOP", help="show only this many", minimum=1)
    failed: bool = failures_option("only failed system calls")
    errno: str | None = option("-e", "--errno", metavar="ERRNO", help="only calls that failed so: ENOENT, or 2")
    syscall: tuple[str, ...] = option("--syscall", default=(), metavar="NAME[,NAME]", help="only these system calls")
    latency: bool = flag("-L", "--latency", help="collect the time spent, too")
    by_process: bool = flag("-P", "--process", help="count by process instead of by system call")
    milliseconds: bool = milliseconds_option()

    def __post_init__(self) -> None:
        """Refuse names that are none."""
        self.error_number()
        self.call_numbers()

    def error_number(self) -> int:
        """The number of the error that is asked for; 0 without one. Raises InvalidValue."""
        if self.errno is None:
            return 0
        numbers = (number for number in range(1, LARGEST_ERROR + 1) if self.errno in {errno_name(number), str(number)})
        found = getattr(errno, self.errno, None) or next(numbers, 0)  # of two names for one number it has both
        if not isinstance(found, int) or not found:
            raise InvalidValue(f"--errno: {self.errno!r} is no error: write a name, such as ENOENT, or its number")
        return found

    def call_numbers(self) -> tuple[int, ...]:
        """The numbers of the system calls that are asked for. Raises InvalidValue."""
        if not self.syscall:
            return ()
        known = {syscall_name(number): number for number in range(MOST_CALLS)}
        for name in self.syscall:
            if name not in known:
                similar = get_close_matches(name, known, 1)
                hint = f" (did you mean {similar[0]}?)" if similar else ""
                raise InvalidValue(f"--syscall: this machine has no system call {name!r}{hint}")
        return tuple(known[name] for name in self.syscall)


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    error, wanted = options.error_number(), options.call_numbers()
    at_return = options.failed or options.latency or bool(error)
    key = Process if options.by_process else s32
    counts = bpf.percpu_hash(key=key, value=u64)
    # A hash for each processor takes milliseconds to make: what the options leave unused is left out.
    if options.latency:
        times = bpf.percpu_hash(key=key, value=u64)
    if at_return:
        # By the kernel's own numbers: from inside a pid namespace, whatever is outside has 0 for tid().
        pending = bpf.hash(key=u64, value=Call)

    @bpf.raw_tracepoint("sys_enter")
    def on_enter(id: int) -> None:  # noqa: A002 - the kernel's name for it
        if wanted and id not in wanted:
            return
        if not tasks.wanted():
            return
        if options.ppid is not None and current_task().real_parent.tgid != options.ppid:
            return
        if at_return:
            pending[get_current_pid_tgid()] = Call(began=now(), number=id)
        elif options.by_process:
            counts[Process(pid=pid(), comm=comm())] += 1
        else:
            counts[id] += 1

    if at_return:

        @bpf.raw_tracepoint("sys_exit")
        def on_exit(ret: int) -> None:
            thread = get_current_pid_tgid()
            call = pending.get(thread)
            if call is None:
                return
            elapsed = now() - call.began
            number = call.number
            del pending[thread]
            if error and ret != -error:
                return
            if options.failed and not -LARGEST_ERROR <= ret < 0:
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
        [Column("PID", 7, type="int"), Column("COMM", 16, key="name", field="comm")]
        if options.by_process
        else [Column("SYSCALL", 22, key="name", field="syscall")]
    )
    unit, scale = ("ms", 1_000_000) if options.milliseconds else ("us", 1_000)
    time = (
        [Column(f"TIME({unit})", 16, ">", key="nanoseconds", scale=scale, decimals=3, field="total_ns", type="int")]
        if options.latency
        else []
    )
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
    record=Count,
    columns=columns,
    examples=(
        Example("syscount", "the ten most frequent until Ctrl-C"),
        Example("syscount -P 1", "by process, each second"),
        Example("syscount -L -x 5 3", "failed calls and their time, three times"),
        Example("syscount -p 181 -T 20", "the twenty most frequent of process 181"),
        Example("syscount -P -c 181", "by process, children of process 181"),
        Example("syscount -P -e ENOENT", "by process, what found no file"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: syscount.open(pid=42)
