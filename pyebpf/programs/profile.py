"""Samples the stacks of running threads.

Each processor is sampled 49 times a second. Stacks of the kernel and of processes are counted, and printed at the end:
as text, folded lines, a flame graph or a file for another profiler. The idle task is left out.

Overhead: 4 us a sample: at 49 Hz, 0.02% of each processor.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from pyebpf import BPF, cpu, now, u64
from pyebpf.filters import TaskFilter
from pyebpf.helpers import get_current_pid_tgid
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
from pyebpf.programs._timed_stacks import sample_of, timed
from pyebpf.python_stacks import python_option
from pyebpf.tool import Example, Stack, StackTool, Stop, cgroup_option, dataclass, flag, option

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Options(StackChoice):
    """Options: what to sample, and how often."""

    pid: tuple[int, ...] = pids_option()
    tid: tuple[int, ...] = tids_option("-L")
    frequency: int = option(
        "-F",
        "--frequency",
        default=49,
        metavar="HZ",
        help="samples per second",
        minimum=1,
        maximum=1_000_000,
    )
    cpu: int | None = option(
        "-C", "--cpu", metavar="CPU", help="only this processor", minimum=0, maximum=8191, names="processor"
    )
    cgroup: str | None = cgroup_option()
    user: bool = flag("-U", "--user", "--user-stacks-only", help="only stacks of processes")
    kernel: bool = flag("-K", "--kernel", "--kernel-stacks-only", help="only stacks of the kernel")
    idle: bool = flag("-I", "--idle", help="include the idle task")
    times: bool = flag("--times", help="keep the time of each sample, as --record does")
    unwind: bool = unwind_option()
    source: str | None = source_option()
    python: bool = python_option()
    stack_storage_size: int = stack_storage_option()


def build(options: Options) -> BPF:
    """The probe and its maps; nothing is loaded yet."""
    bpf = BPF()
    bpf.max_stacks = options.stack_storage_size
    walk = ThreadWalk(bpf, options)
    sample = sample_of(walk)
    if options.times:
        samples = bpf.ringbuf(sample, size=4 << 20, name="samples")
    else:
        counts = bpf.hash(key=walk.record, value=u64, size=options.stack_storage_size, name="counts")

    # Of one process only itself is interrupted.
    alone = options.pid[0] if len(options.pid) == 1 else -1
    others = options.pid if alone < 0 else ()
    tasks = TaskFilter(SimpleNamespace(pid=others, tid=options.tid, cgroup=options.cgroup))

    @bpf.sample(frequency=options.frequency, pid=alone)
    def on_sample() -> None:
        if not options.idle and get_current_pid_tgid() == 0:
            return
        if not tasks.wanted():
            return
        if options.cpu is not None and cpu() != options.cpu:
            return
        if options.times:
            samples.emit(sample(time=now(), thread=walk.here()))
        else:
            counts[walk.here()] += 1

    return bpf


def collect(bpf: BPF, options: Options, stop: Stop) -> Iterator[Stack]:
    """The stacks until the stop, the most frequent first."""
    return (timed if options.times else counted)(bpf, options, stop)


def reset(bpf: BPF) -> None:
    """Drop what was counted before all processors were."""
    if any(each.name == "counts" for each in bpf.maps):
        bpf["counts"].interval()


TOOL = StackTool(
    name="profile",
    doc=__doc__,
    tracing="stacks of what runs on the processors",
    options=Options,
    build=build,
    drop_labels={
        "counts": "samples of other stacks",
        "samples": "samples",
        "python_calls": "calls of Python's functions",
    },
    collect=collect,
    period=lambda options: 1_000_000_000 // options.frequency,
    reset=reset,
    recorded={"times": True},
    examples=(
        Example("profile 10", "all processes, for ten seconds"),
        Example("profile -F 99 -p 181 30", "process 181, more often"),
        Example("profile --svg out.svg 30", "a flame graph"),
        Example("profile --record cpu.rec 30", "with times, for `pyebpf show`"),
        Example("profile --pprof out.pb.gz 30", "for `go tool pprof`"),
        Example("profile -af 5", "folded, the kernel's functions marked"),
        Example("profile -K -I -C 0 5", "the kernel on processor 0, idle or not"),
        Example("profile --python -p 181 10", "with the names of Python's functions"),
        Example("profile --unwind -p 181 10", "callers without frame pointers"),
        Example("profile -U -L 182 -f", "a thread's own stacks, until Ctrl-C"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: profile.open(pid=42)
