"""Facts about threads, and histograms of their durations, that the tools of the scheduler share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import InvalidValue, Struct, char, field, has_field, u32
from pyebpf.in_flight import InFlight
from pyebpf.tool import dataclass, flag, milliseconds_option, pid_option, time_unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf import BPF, KernelObject

#: include/linux/sched.h: the state of a thread that leaves its processor for good.
TASK_DEAD = 0x80
#: Threads that are followed at once.
THREADS = 65_536


class Process(Struct):
    """Key of a histogram for each process; `comm` is the name of its first thread."""

    pid: u32
    comm: str = field(char[16])


class Thread(Struct):
    """Key of a histogram for each thread."""

    tid: u32
    comm: str = field(char[16])


class PidNamespace(Struct):
    """Key of a histogram for each pid namespace: its inode, as in /proc/PID/ns/pid; 0 for threads that have left it."""

    pidns: u32


def state(task: KernelObject) -> Any:
    """In a probe: the bits of a thread's state, 0 if it runs or wants to."""
    # Since Linux commit 2f064a59a11f ("sched: Change task_struct::state") (in v5.14); before, it was `state`.
    return task.__state if has_field("struct task_struct", "__state") else task.state


def is_preempted(ctx: Any) -> Any:
    """In a probe at sched_switch: whether the thread that leaves the processor still wants it.

    One that is preempted on its way to sleep has a state already, and runs on until it sleeps. The idle task, which
    has pid 0, never waits.
    """
    return (ctx.preempt or state(ctx.prev) == 0) and ctx.prev.pid != 0


class Waits:
    """Waits for a processor: from a thread's wakeup, or from when another takes its processor, until it runs.

    `wanted` says in a probe whether a thread's waits are asked for.
    """

    def __init__(self, bpf: BPF, wanted: Callable[[KernelObject], bool]) -> None:
        self.wanted = wanted
        self.waits = waits = InFlight(bpf, size=THREADS, name="began")

        @bpf.btf_tracepoint("sched_wakeup", "sched_wakeup_new")
        def on_wakeup(p: KernelObject) -> None:
            if wanted(p):
                waits.start(p.pid)

    def end(self, ctx: Any) -> int | None:
        """In a probe at sched_switch: nanoseconds that the thread that gets the processor waited for it, if seen."""
        prev = ctx.prev
        if is_preempted(ctx):
            if self.wanted(prev):
                self.waits.start(prev.pid)
        elif state(prev) == TASK_DEAD:
            self.waits.cancel(prev.pid)
        return self.waits.end(ctx.next.pid)


@dataclass(frozen=True)
class DurationOptions:
    """Options of histograms: whose durations, and how to group and show them."""

    pid: int | None = pid_option()
    by_process: bool = flag("-P", "--pids", help="a histogram for each process")
    by_thread: bool = flag("-L", "--tids", help="a histogram for each thread")
    milliseconds: bool = milliseconds_option()
    #: An option of runqlat alone.
    by_namespace = False

    def __post_init__(self) -> None:
        """Refuse two ways to group."""
        if sum((self.by_process, self.by_thread, self.by_namespace)) > 1:
            raise InvalidValue("histograms are grouped in one way: give one of -P, -L and --pidnss")


class Durations:
    """Histograms as the options ask for them: one, or one for each process or the like. Their map is `duration`."""

    def __init__(self, bpf: BPF, options: DurationOptions) -> None:
        self.pid = options.pid
        unit, self.factor = time_unit(options.milliseconds)
        self.kind: type[Struct] | None = None
        for kind, asked in (
            (Process, options.by_process),
            (Thread, options.by_thread),
            (PidNamespace, options.by_namespace),
        ):
            if asked:
                self.kind = kind
        if self.kind is None:
            self.overall = bpf.log2_hist(unit=unit, name="duration")
        else:
            self.by_key = bpf.log2_hist(key=self.kind, unit=unit, name="duration")

    def wanted(self, task: KernelObject) -> bool:
        """In a probe: whether the options ask for a thread."""
        return self.pid is None or task.tgid == self.pid

    def add(self, task: KernelObject, elapsed: int) -> None:
        """In a probe: count a duration of a thread, in nanoseconds."""
        if self.kind is None:
            self.overall.add(elapsed // self.factor)
        elif self.kind is Process:
            self.by_key[Process(pid=task.tgid, comm=task.group_leader.comm)].add(elapsed // self.factor)
        elif self.kind is Thread:
            self.by_key[Thread(tid=task.pid, comm=task.comm)].add(elapsed // self.factor)
        else:
            number = task.nsproxy.pid_ns_for_children.ns.inum
            self.by_key[PidNamespace(pidns=number)].add(elapsed // self.factor)


def forget(bpf: BPF) -> None:
    """Drop what began before all probes were attached."""
    bpf["began"].clear()
