"""Calls of functions that take longer than a threshold: a line for each, with latency, result, arguments and stacks.

PATTERN is written as bcc's funcslower takes a function, with `*`, `?` or `[...]` in a name: "vfs_write" or "tcp_*" for
functions of the kernel, "c:getaddrinfo" or "/usr/bin/program:*" for those of a library or program. The time is from
entry to return, with all that they call, and asleep. Calls that began before, or do not return, are left out.

Overhead: two probes for each call. Functions that are called millions of times a second slow the machine down, and
those of processes cost more than those of the kernel. A stack costs 1 us for each line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import (
    InvalidValue,
    Struct,
    char,
    comm,
    field,
    function_ip,
    kstack,
    now,
    pid,
    s32,
    tid,
    u64,
    ustack,
)
from pyebpf.filters import TaskFilter
from pyebpf.programs.funccount import Counter, max_probes_option, split
from pyebpf.programs.funclatency import check_functions, check_functions_are_told
from pyebpf.tool import (
    Column,
    EventTool,
    Example,
    Record,
    Stop,
    argument,
    cgroup_option,
    comm_option,
    dataclass,
    events,
    flag,
    monotonic_time,
    option,
    pid_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: As many arguments as bcc's tool shows: those in registers on x86-64.
ARGUMENTS = 6
MILLISECOND, MICROSECOND = 1_000_000, 1_000
LONGEST = (1 << 63) // MILLISECOND


class Call(Struct):
    """A call as the probe reports it; `function` is an address of the kernel's, or a number of a file's functions."""

    time: u64
    elapsed: u64
    result: u64
    function: u64
    pid: s32
    tid: s32
    user: s32
    kernel: s32
    comm: str = field(char[16])
    arg0: u64
    arg1: u64
    arg2: u64
    arg3: u64
    arg4: u64
    arg5: u64


@dataclass(frozen=True)
class SlowCall(Record):
    """A call that was slow: when it returned, after `elapsed` nanoseconds.

    `result` and `args` are 64 bits each, whatever the types. Stacks have the innermost function first, and are None if
    they were not asked for.
    """

    time: int
    comm: str
    pid: int
    tid: int
    elapsed: int
    result: int
    function: str
    args: tuple[int, ...] | None
    user_stack: tuple[str, ...] | None
    kernel_stack: tuple[str, ...] | None

    @property
    def shown(self) -> str:
        """The result as text has it."""
        return f"{self.result:x}"

    @property
    def words(self) -> str:
        """The function, and what was asked for of its arguments."""
        return " ".join([self.function, *(f"{each:x}" for each in self.args or ())])


@dataclass(frozen=True)
class Options:
    """Options: what to time, of whom, and how much to tell."""

    pattern: str = argument("PATTERN", help="functions to time, such as 'vfs_write', 'tcp_*' or 'c:getaddrinfo'")
    pid: int | None = pid_option()
    uid: int | None = option("--uid", metavar="UID", help="only this user", minimum=0)
    comm: str | None = comm_option()
    cgroup: str | None = cgroup_option()
    milliseconds: int | None = option(
        "-m", "--min-ms", metavar="MS", help="only calls of at least so long (default: 1)", minimum=0, maximum=LONGEST
    )
    microseconds: int | None = option(
        "-u", "--min-us", metavar="US", help="the same in microseconds, which are printed", minimum=0, maximum=LONGEST
    )
    args: int = option(
        "-a", "--arguments", metavar="N", default=0, help="print so many arguments", minimum=0, maximum=ARGUMENTS
    )
    user: bool = flag("-U", "--user-stack", help="print the stack of the process")
    kernel: bool = flag("-K", "--kernel-stack", help="print the stack of the kernel")
    elapsed: bool = flag("-t", "--timestamp", help="print the seconds since the first line", output_only=True)
    max_probes: int = max_probes_option()

    def __post_init__(self) -> None:
        """Refuse what are no functions, and two thresholds."""
        check_functions(self.pattern)
        if self.milliseconds is not None and self.microseconds is not None:
            raise InvalidValue("-m and -u are one threshold, in milliseconds or in microseconds: give one of them")

    @property
    def least(self) -> int:
        """The nanoseconds of the shortest call that is told."""
        if self.microseconds is not None:
            return self.microseconds * MICROSECOND
        return (1 if self.milliseconds is None else self.milliseconds) * MILLISECOND


def build(options: Options) -> Counter:
    """The probes and the buffer; nothing is loaded yet."""
    bpf, tasks = Counter(), TaskFilter(options)
    _, where, pattern = split(options.pattern)
    calls = bpf.ringbuf(Call, name="calls")
    single = not any(character in pattern for character in "*?[")
    least = options.least
    nothing = (0,) * ARGUMENTS

    def report(function: int, elapsed: int, result: int, arguments: tuple[int, ...]) -> None:
        if (least and elapsed < least) or not tasks.wanted():
            return
        calls.emit(
            Call(
                time=now(),
                elapsed=elapsed,
                result=result,
                function=function,
                pid=pid(),
                tid=tid(),
                user=ustack() if options.user else -1,
                kernel=kstack() if options.kernel else -1,
                comm=comm(),
                arg0=arguments[0],
                arg1=arguments[1],
                arg2=arguments[2],
                arg3=arguments[3],
                arg4=arguments[4],
                arg5=arguments[5],
            )
        )

    if where:
        bpf.name = bpf.place_name

        if options.args:

            @bpf.user_call(where, pattern, pid=options.pid, max_probes=options.max_probes)
            def on_call(
                ctx: Any, arg0: u64, arg1: u64, arg2: u64, arg3: u64, arg4: u64, arg5: u64, retval: u64, elapsed: int
            ) -> None:
                report(ctx.cookie, elapsed, retval, (arg0, arg1, arg2, arg3, arg4, arg5))

        else:

            @bpf.user_call(where, pattern, pid=options.pid, max_probes=options.max_probes)
            def on_plain_call(ctx: Any, retval: u64, elapsed: int) -> None:
                report(ctx.cookie, elapsed, retval, nothing)

        return bpf

    def name(_: int) -> str:
        return pattern.rpartition(":")[2]

    bpf.pattern = pattern.rpartition(":")[2]
    if not single:
        bpf.before_compiling.append(check_functions_are_told)
    if single:
        bpf.name = name

    if options.args:

        @bpf.call(pattern, max_probes=options.max_probes)
        def on_function(
            arg0: u64, arg1: u64, arg2: u64, arg3: u64, arg4: u64, arg5: u64, raw_retval: u64, elapsed: int
        ) -> None:
            report(0 if single else function_ip(), elapsed, raw_retval, (arg0, arg1, arg2, arg3, arg4, arg5))

    else:

        @bpf.call(pattern, max_probes=options.max_probes)
        def on_plain_function(raw_retval: u64, elapsed: int) -> None:
            report(0 if single else function_ip(), elapsed, raw_retval, nothing)

    return bpf


def arguments_of(call: Call) -> tuple[int, ...]:
    """All of its arguments."""
    return call.arg0, call.arg1, call.arg2, call.arg3, call.arg4, call.arg5


def slow_calls(bpf: Counter, options: Options, stop: Stop) -> Iterator[SlowCall]:
    """Calls as they return."""
    for call in events(bpf["calls"], stop):
        yield SlowCall(
            time=monotonic_time(call.time),
            comm=call.comm,
            pid=call.pid,
            tid=call.tid,
            elapsed=call.elapsed,
            result=call.result,
            function=bpf.name(call.function),
            args=arguments_of(call)[: options.args] if options.args else None,
            user_stack=tuple(map(str, bpf.stacks.user(call.user, call.pid))) if options.user else None,
            kernel_stack=tuple(map(str, bpf.stacks.kernel(call.kernel))) if options.kernel else None,
        )


def columns(options: Options) -> tuple[Column, ...]:
    """The columns of bcc's tool; stacks stand below the line."""
    first: list[int] = []

    def since_first(call: SlowCall) -> int:
        if not first:
            first.append(call.time)
        return call.time - first[0]

    heading, scale, decimals = ("LAT(us)", 1_000, 2) if options.microseconds is not None else ("LAT(ms)", 10**6, 2)
    return (
        *(
            [Column("TIME(s)", 10, key=since_first, scale=10**9, decimals=6, field="elapsed_ns", type="int")]
            if options.elapsed
            else []
        ),
        Column("COMM", 14),
        Column("PID", 7),
        Column("TID", printed=False),
        Column(heading, 10, ">", key="elapsed", scale=scale, decimals=decimals, field="latency_ns", drawn=True),
        Column("RVAL", 16, ">", key="shown", field="result", value="result", type="int"),
        Column("FUNC", key="words", field="function", value="function"),
        Column("ARGS", printed=False),
        *([Column("KSTACK", key="kernel_stack", below=True)] if options.kernel else []),
        *([Column("USTACK", key="user_stack", below=True)] if options.user else []),
    )


TOOL = EventTool(
    name="funcslower",
    doc=__doc__,
    tracing="slow calls of functions",
    options=Options,
    build=build,
    drop_labels={"calls": "calls"},
    records=slow_calls,
    record=SlowCall,
    time="time",
    columns=columns,
    examples=(
        Example("funcslower vfs_read", "calls of 1 ms and longer", "kernel functions"),
        Example("funcslower -m 10 -K 'vfs_*'", "of 10 ms, with stacks"),
        Example("funcslower -u 500 -U c:getaddrinfo", "of 500 us, of libc", "functions of files"),
        Example("funcslower -a 2 -p 181 c:open", "two arguments, one process"),
        Example("funcslower -m 0 -a 3 --json vfs_read", "all calls, as objects"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: funcslower.open("c:read")
