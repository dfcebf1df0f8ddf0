"""Latency of functions as a histogram, of the kernel or of a library or program, with average and total.

PATTERN is written as bcc's funclatency takes it, with `*`, `?` or `[...]` in a name: "vfs_read" or "tcp_*" for
functions of the kernel, "c:malloc" or "/usr/bin/program:*" for those of a library or program. The time is from entry to
return, with all that they call, and asleep. Calls that began before, or do not return, are left out.

Overhead: two probes for each call. Functions that are called millions of times a second slow the machine down, and
those of processes cost more than those of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import InvalidValue, NotSupported, function_ip, u64
from pyebpf.filters import TaskFilter
from pyebpf.programs.funccount import FUNCTION, Counter, check_pattern, max_probes_option, split
from pyebpf.tool import (
    Example,
    Histogram,
    SummaryTool,
    argument,
    cgroup_option,
    comm_option,
    dataclass,
    flag,
    milliseconds_option,
    option,
    pid_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_functions(pattern: str) -> None:
    """Raise InvalidValue for a pattern of what takes no time: tracepoints, USDT probes."""
    if split(pattern)[0] != FUNCTION:
        raise InvalidValue(f"{pattern!r}: only functions take time: 'tcp_*', or 'LIBRARY:FUNCTION'")
    check_pattern(pattern)


@dataclass(frozen=True)
class Options:
    """Options: what to time, of whom, and how to show it."""

    pattern: str = argument("PATTERN", help="functions to time, such as 'vfs_read', 'tcp_*' or 'c:malloc'")
    pid: int | None = pid_option()
    uid: int | None = option("--uid", metavar="UID", help="only this user", minimum=0)
    comm: str | None = comm_option()
    cgroup: str | None = cgroup_option()
    microseconds: bool = flag("-u", "--microseconds", help="microseconds instead of nanoseconds")
    milliseconds: bool = milliseconds_option("milliseconds instead of nanoseconds")
    by_function: bool = flag("-F", "--function", help="a histogram for each function")
    max_probes: int = max_probes_option()

    def __post_init__(self) -> None:
        """Refuse what are no functions."""
        check_functions(self.pattern)

    def unit(self) -> tuple[str, int]:
        """The unit of the rows, and how many nanoseconds it has."""
        if self.milliseconds:
            return "msecs", 1_000_000
        return ("usecs", 1_000) if self.microseconds else ("nsecs", 1)


def check_functions_are_told(target: Any) -> None:
    """Raise NotSupported where the kernel does not tell which function it runs at: before Linux 5.15 (9ffd9f3ff719)."""
    if not target.has("helper:get_func_ip@kprobe") and target.has("attach:kprobe"):
        raise NotSupported(
            "-F: this kernel does not tell a program which function it runs at; Linux 5.15 and later do: "
            "leave -F out, or name one function"
        )


def build(options: Options) -> Counter:
    """The probes and the maps; nothing is loaded yet."""
    bpf, tasks = Counter(), TaskFilter(options)
    _, where, pattern = split(options.pattern)
    most = options.max_probes
    unit, factor = options.unit()
    latency = bpf.log2_hist(key=u64, unit=unit, size=most, name="latency")
    time = bpf.counter(key=u64, size=most, name="time")

    def add(function: int, elapsed: int) -> None:
        if tasks.wanted():
            latency[function].add(elapsed // factor)
            time[function].add(elapsed)

    if where:
        bpf.name = bpf.place_name

        @bpf.user_call(where, pattern, pid=options.pid, max_probes=most)
        def on_call(ctx: Any, elapsed: int) -> None:
            add(ctx.cookie if options.by_function else 0, elapsed)

    else:
        bpf.pattern = pattern.rpartition(":")[2]
        if options.by_function:
            bpf.before_compiling.append(check_functions_are_told)

        @bpf.call(pattern, max_probes=most)
        def on_function(elapsed: int) -> None:
            add(function_ip() if options.by_function else 0, elapsed)

    return bpf


def snapshot(bpf: Counter, options: Options) -> Iterator[Histogram]:
    """The interval's histograms, the longest total last."""
    times = dict(bpf["time"].interval().items())
    found = bpf["latency"].interval()
    for key in sorted(found, key=lambda key: (times.get(key, 0), key)):
        count, total = found[key].total, times.get(key, 0)
        labels: dict[str, object] = {"function": bpf.name(key)} if options.by_function else {}
        labels |= {"average_ns": total // count if count else 0, "total_ns": total, "count": count}
        yield found[key].with_labels(labels)


TOOL = SummaryTool(
    name="funclatency",
    doc=__doc__,
    tracing="the latency of functions",
    options=Options,
    build=build,
    drop_labels={"latency": "calls of other functions", "time": "times of other functions"},
    snapshot=snapshot,
    examples=(
        Example("funclatency vfs_read", "a histogram at the end", "kernel functions"),
        Example("funclatency -F 'vfs_*' 1 5", "by function, each second"),
        Example("funclatency -u c:getaddrinfo", "of libc, in microseconds", "functions of files"),
        Example("funclatency -m -p 181 do_sys*", "in milliseconds, one process"),
        Example("funclatency -d 10 --json tcp_sendmsg", "for ten seconds, an object"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: funclatency.open("vfs_read")
