"""Processes that end: a line for each, with its age and the exit code or the signal.

A process ends with its last thread. Its exit code is what wait(2) tells its parent.

Overhead: a probe for each thread that ends.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, Struct, char, field, now, pid, s64, tid, u8, u32, u64
from pyebpf.filters import TaskFilter
from pyebpf.programs._signals import signal_name
from pyebpf.tool import Column, EventTool, Example, TaskOptions, dataclass, failures_option, flag

#: include/linux/sched/signal.h: the group's exit code counts.
SIGNAL_GROUP_EXIT = 4
#: Of an exit code as wait(2) has it.
SIGNAL_MASK, CORE_DUMPED = 0x7F, 0x80


class Process(Struct):
    """A process, also from another that had its number before."""

    number: u64
    began: u64


class Exit(Struct):
    """A process or thread that ended `age` nanoseconds after its start; `status` is that of wait(2)."""

    time: u64
    age: s64
    pid: u32
    ppid: u32
    tid: u32
    status: u32
    comm: str = field(char[16])

    @property
    def exit_code(self) -> int | None:
        """The number given to exit(2), None if a signal ended it."""
        return None if self.signal else self.status >> 8 & 0xFF

    @property
    def signal(self) -> str | None:
        """The signal that ended it by name, None if it called exit(2)."""
        number = self.status & SIGNAL_MASK
        return signal_name(number) if number else None

    @property
    def core_dumped(self) -> bool:
        """Whether its memory was written to a file, or given to a program."""
        return bool(self.status & CORE_DUMPED)


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: which ends to report."""

    failed: bool = failures_option("only what failed: a code that is not 0, or a signal")
    per_thread: bool = flag("--per-thread", help="a line for each thread")


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    exits = bpf.ringbuf(Exit, name="exits")
    # The last threads may all be past the point where they are counted out when the first of them comes here.
    ended = bpf.lru_hash(key=Process, value=u8, size=1024)

    @bpf.btf_tracepoint("sched_process_exit")
    def on_exit(p: KernelObject) -> None:
        task = p if options.per_thread else p.group_leader
        if not options.per_thread:
            if p.signal.live.counter != 0:
                return
            if not ended.add(Process(number=p.tgid, began=task.start_time), 1):
                return
        status = task.exit_code
        if not options.per_thread and p.signal.flags & SIGNAL_GROUP_EXIT:
            status = p.signal.group_exit_code
        if not tasks.wanted() or (options.failed and status == 0):
            return
        time = now()
        exits.emit(
            Exit(
                time=time,
                age=time - task.start_time,
                pid=pid(),
                ppid=p.real_parent.tgid,
                tid=tid() if options.per_thread else pid(),
                status=status,
                comm=task.comm,
            )
        )

    return bpf


def outcome(ended: Exit) -> str:
    """The text of the exit code, as bcc's."""
    if ended.signal is None:
        return f"code {ended.exit_code}" if ended.exit_code else "0"
    number = ended.status & SIGNAL_MASK
    core = ", core dumped" if ended.core_dumped else ""
    return f"signal {number} ({ended.signal.removeprefix('SIG')}){core}"


TOOL = EventTool(
    name="exitsnoop",
    doc=__doc__,
    section="6.3.2",
    tracing="the ends of processes",
    options=Options,
    build=build,
    drop_labels={"exits": "ends", "ended": "ends"},
    record=Exit,
    columns=(
        Column("PCOMM", 16, key="comm"),
        Column("PID", 7),
        Column("PPID", 7),
        Column("TID", 7),
        Column("AGE(s)", 8, key="age", scale=1_000_000_000, decimals=2, field="age_ns", drawn=True),
        Column("EXIT_CODE", key=outcome, field="exit_code", value="exit_code", type="int | None"),
        Column("SIGNAL", printed=False),
        Column("CORE_DUMPED", printed=False),
    ),
    examples=(
        Example("exitsnoop", "every process that ends"),
        Example("exitsnoop -x -T", "only those that failed, with the time"),
        Example("exitsnoop -p 181 --per-thread", "threads of process 181"),
        Example("exitsnoop --comm cc1 --json", "by name, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: exitsnoop.open(failed=True)
