"""Counts the stacks that lead to an event: a function of the kernel, library or program, a tracepoint, a USDT probe.

PATTERN is written as bcc's stackcount takes it, with `*`, `?` or `[...]` in a name: "tcp_sendmsg" or "p::tcp_*" for
functions of the kernel, "c:malloc" or "p:/usr/bin/program:*" for those of a library or program, "t:block:*" for
tracepoints, "u:python3:gc__*" for USDT probes. Printed at the end: as text, folded lines, a flame graph or a speedscope
file.

Overhead: two stacks for each event, 1 us; functions of processes cost more than those of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, cpu, u64
from pyebpf.filters import TaskFilter
from pyebpf.programs._thread_stacks import (
    StackChoice,
    ThreadWalk,
    counted,
    pids_option,
    source_option,
    stack_storage_option,
    tids_option,
    unwind_option,
)
from pyebpf.programs.funccount import (
    TRACEPOINT,
    USDT,
    check_pattern,
    cpu_option,
    max_probes_option,
    split,
    with_provider,
)
from pyebpf.python_stacks import python_option
from pyebpf.tool import Example, StackTool, argument, cgroup_option, dataclass, flag

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Options(StackChoice):
    """Options: the event, and whose stacks."""

    pattern: str = argument("PATTERN", help="the event, such as 'tcp_sendmsg', 'c:malloc' or 't:block:*'")
    pid: tuple[int, ...] = pids_option()
    tid: tuple[int, ...] = tids_option()
    cpu: int | None = cpu_option()
    cgroup: str | None = cgroup_option()
    user: bool = flag("-U", "--user-stacks-only", help="only stacks of processes")
    kernel: bool = flag("-K", "--kernel-stacks-only", help="only stacks of the kernel")
    unwind: bool = unwind_option()
    source: str | None = source_option()
    python: bool = python_option()
    max_probes: int = max_probes_option()
    stack_storage_size: int = stack_storage_option()

    def __post_init__(self) -> None:
        """Take one process or thread for a tuple of one, as open(pid=42) gives it; refuse what is not a pattern."""
        super().__post_init__()
        check_pattern(self.pattern)


def event(bpf: BPF, options: Options) -> Callable[[Callable[[], None]], object]:
    """The decorator for the probe: the attachment that the pattern names."""
    kind, where, pattern = split(options.pattern)
    # A file's probes are put into the processes that are asked for alone, where that is one.
    process = options.pid[0] if len(options.pid) == 1 else None
    if kind == TRACEPOINT:
        return bpf.tracepoint(f"{where}:{pattern}", max_probes=options.max_probes)
    if kind == USDT:
        return bpf.usdt(where, with_provider(pattern), pid=process, max_probes=options.max_probes)
    if where:
        return bpf.uprobe(where, pattern, pid=process, max_probes=options.max_probes)
    return bpf.function(pattern, max_probes=options.max_probes)


def build(options: Options) -> BPF:
    """The probe and its maps; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    bpf.max_stacks = options.stack_storage_size
    walk = ThreadWalk(bpf, options)
    counts = bpf.hash(key=walk.record, value=u64, size=options.stack_storage_size, name="counts")

    @event(bpf, options)
    def on_event() -> None:
        if tasks.wanted() and (options.cpu is None or cpu() == options.cpu):
            counts[walk.here()] += 1

    return bpf


TOOL = StackTool(
    name="stackcount",
    doc=__doc__,
    tracing="stacks of events",
    options=Options,
    build=build,
    drop_labels={"counts": "events of other stacks", "python_calls": "calls of Python's functions"},
    collect=counted,
    reset=lambda bpf: bpf["counts"].interval(),
    examples=(
        Example("stackcount t:block:block_rq_insert 10", "who inserts requests", "tracepoints"),
        Example("stackcount -K tcp_sendmsg 10", "kernel stacks", "kernel functions"),
        Example("stackcount -U -p 181 c:malloc 5", "a process that allocates", "functions of files"),
        Example("stackcount -f 'u:python3:gc__start'", "folded, until Ctrl-C", "USDT probes"),
        Example("stackcount --svg o.svg t:sched:sched_switch", "a flame graph"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: stackcount.open("c:malloc")
