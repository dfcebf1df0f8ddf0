"""Threads that processes create: a line for each pthread_create(3), with the function that the thread starts with.

The function's name comes from the program's symbols. Programs with threads of their own, such as those in Go, do not
call pthread_create(3), and those that are linked statically have their own (-l names them).

Overhead: a probe in user space for each thread; nothing else is slowed down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, InvalidValue, Struct, char, comm, field, now, pid, s32, tid, u32, u64, ustack
from pyebpf.filters import TaskFilter
from pyebpf.programs._thread_stacks import Looks, unwind_option
from pyebpf.tool import Column, EventTool, Example, Record, Stop, TaskOptions, dataclass, events_of, option
from pyebpf.unwinding import Unwinder

if TYPE_CHECKING:
    from collections.abc import Iterator


class Call(Struct):
    """A call, with the function's address and the number of the caller's stack."""

    time: u64
    start: u64
    stack: s32
    pid: u32
    tid: u32
    comm: str = field(char[16])


@dataclass(frozen=True)
class Thread(Record):
    """A thread that process `pid` creates, at `time` in nanoseconds; `function` is None if its symbols lack it.

    `stack` has the functions that call pthread_create(3), the innermost first.
    """

    time: int
    pid: int
    tid: int
    comm: str
    function: str | None
    module: str
    stack: tuple[str, ...]


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options: whose threads to report."""

    library: str = option(
        "-l", "--library", metavar="FILE", help="the library or program with the function", default="libc.so.6"
    )
    unwind: bool = unwind_option()

    def __post_init__(self) -> None:
        """Refuse what names nothing."""
        if not self.library:
            raise InvalidValue("--library: name the library or program with pthread_create(3)")


def build(options: Options) -> BPF:
    """The probe and its buffer; nothing is loaded yet."""
    bpf, tasks = BPF(), TaskFilter(options)
    threads = bpf.ringbuf(Call, name="threads")
    processes = () if options.pid is None else (options.pid,)
    unwinder = Unwinder(bpf, processes) if options.unwind else None

    @bpf.uprobe(options.library, "pthread_create", pid=options.pid)
    def on_create(_thread: u64, _attributes: u64, start: u64) -> None:
        if tasks.wanted():
            stack = ustack() if unwinder is None else unwinder.ustack()
            threads.emit(Call(time=now(), start=start, stack=stack, pid=pid(), tid=tid(), comm=comm()))

    return bpf


def created(bpf: BPF, options: Options, stop: Stop) -> Iterator[Thread]:
    """Threads as they are created, with the names of their functions."""
    looks = Looks(bpf)
    for call in events_of("threads", "time")(bpf, options, stop):
        frame = bpf.stacks.user_function(call.start, call.pid)
        stack = tuple(each.label for each in bpf.stacks.user(call.stack, call.pid)[1:])
        yield Thread(call.time, call.pid, call.tid, call.comm, frame.name or None, frame.module, stack)
        looks.look()


def function_name(thread: Thread) -> str:
    """The function; text has the file in place of None."""
    return thread.function or f"[{thread.module or 'unknown'}]"


TOOL = EventTool(
    name="threadsnoop",
    doc=__doc__,
    section="13.2.2",
    tracing="pthread_create(3)",
    options=Options,
    build=build,
    drop_labels={"threads": "threads"},
    records=created,
    record=Thread,
    time="time",
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("TID", printed=False),
        Column("COMM", 16),
        Column("FUNC", key=function_name, field="function", value="function", type="str | None"),
        Column("MODULE", printed=False),
        Column("STACK", printed=False),
    ),
    examples=(
        Example("threadsnoop", "every thread that is created"),
        Example("threadsnoop -p 181", "by process 181"),
        Example("threadsnoop --comm mysqld --json", "by name, an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: threadsnoop.open(pid=42)
