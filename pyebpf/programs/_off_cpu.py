"""Threads that leave their processor, and who wakes them: what the tools of off-CPU stacks share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyebpf import InvalidValue
from pyebpf.filters import TaskFilter
from pyebpf.programs._scheduler import TASK_DEAD, state
from pyebpf.programs._thread_stacks import (
    StackChoice,
    ThreadStacks,
    ThreadWalk,
    pids_option,
    source_option,
    stack_storage_option,
    tids_option,
    unwind_option,
    wait,
)
from pyebpf.tool import cgroup_option, dataclass, flag, option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf import BPF, KernelObject
    from pyebpf.tool import Stop

#: include/linux/sched.h: a thread of the kernel.
PF_KTHREAD = 0x0020_0000
#: include/linux/sched.h: with the bit of uninterruptible sleep, a thread that merely waits for work (state I of ps).
TASK_NOLOAD = 0x400
LONGEST = (1 << 63) // 1000


@dataclass(frozen=True)
class OffCpuOptions(StackChoice):
    """Options of all: whose time off the processors, and how much of it at a time."""

    pid: tuple[int, ...] = pids_option()
    tid: tuple[int, ...] = tids_option()
    cgroup: str | None = cgroup_option()
    user_threads: bool = flag("-u", "--user-threads-only", help="no threads of the kernel")
    kernel_threads: bool = flag("-k", "--kernel-threads-only", help="only threads of the kernel")
    user: bool = flag("-U", "--user-stacks-only", help="only stacks of processes")
    kernel: bool = flag("-K", "--kernel-stacks-only", help="only stacks of the kernel")
    minimum: int = option(
        "-m",
        "--min-block-time",
        default=1,
        metavar="US",
        help="only times of at least so many microseconds",
        minimum=0,
        maximum=LONGEST,
    )
    maximum: int | None = option(
        "-M",
        "--max-block-time",
        metavar="US",
        help="only times of at most so many microseconds",
        minimum=0,
        maximum=LONGEST,
    )
    state: int | None = option(
        "--state",
        metavar="BITS",
        help="only threads in one of these states (2: uninterruptible, not idle; 0: preempted)",
        minimum=0,
        maximum=(1 << 32) - 1,
    )
    unwind: bool = unwind_option()
    source: str | None = source_option()
    stack_storage_size: int = stack_storage_option()

    def __post_init__(self) -> None:
        """Take one process or thread for a tuple of one, as open(pid=42) gives it; refuse what excludes everything."""
        super().__post_init__()
        if self.user_threads and self.kernel_threads:
            raise InvalidValue("no thread is of the kernel and of a process: give one of -u and -k")
        if self.maximum is not None and self.maximum < self.minimum:
            raise InvalidValue(f"no time is at least {self.minimum} us and at most {self.maximum} us: see -m and -M")


class OffCpu:
    """The threads that the options ask for, and their stacks."""

    def __init__(self, bpf: BPF, options: OffCpuOptions) -> None:
        bpf.max_stacks = options.stack_storage_size
        self.options = options
        self.walk = ThreadWalk(bpf, options)
        self.tasks = TaskFilter(SimpleNamespace(pid=options.pid, tid=options.tid, cgroup=options.cgroup))

    def wanted(self, prev: KernelObject) -> bool:
        """In a probe at sched_switch: whether the options ask for the time of the thread that leaves its processor.

        Not for the idle task's, whose pid is 0, nor for that of a thread that ends.
        """
        options, bits = self.options, state(prev)
        if prev.pid == 0 or bits == TASK_DEAD:
            return False
        if options.user_threads and prev.flags & PF_KTHREAD:
            return False
        if options.kernel_threads and not prev.flags & PF_KTHREAD:
            return False
        asked = options.state
        if asked == 0 and bits != 0:
            return False
        if asked and (bits & asked == 0 or (bits & TASK_NOLOAD and not asked & TASK_NOLOAD)):
            return False
        return self.tasks.wanted()

    def counts(self, elapsed: int) -> bool:
        """In a probe: whether -m and -M ask for a time of so many nanoseconds."""
        if elapsed < self.options.minimum * 1000:
            return False
        return self.options.maximum is None or elapsed < (self.options.maximum + 1) * 1000

    def here(self) -> ThreadStacks:
        """In a probe: the current thread and its stacks."""
        return self.walk.here()


def totals(bpf: BPF, stop: Stop) -> Iterator[tuple[Any, int]]:
    """The keys that the map `totals` has at the stop, each with its microseconds, the longest time first."""
    wait(bpf, stop)
    # After Ctrl-C there is little time for names: the longest have them first.
    for key, nanoseconds in sorted(bpf["totals"].interval().items(), key=lambda item: -item[1]):
        yield key, nanoseconds // 1000
    bpf.stacks.release()
