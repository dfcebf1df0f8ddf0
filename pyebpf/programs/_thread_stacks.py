"""Threads and their stacks: the record that a probe makes, and the options of the tools that show them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyebpf import Struct, char, comm, field, kstack, pid, s32, u32, u64, ustack
from pyebpf.python_stacks import PythonStacks, python_stacks
from pyebpf.tool import Stack, flag, option
from pyebpf.unwinding import Unwinder, unwinder_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf import BPF, Frame
    from pyebpf.tool import Stop

STACKS = 131_072
#: What --source shows.
INLINED, LINES = "inlined", "lines"
PID_MAX = 1 << 22  # PID_MAX_LIMIT of include/linux/threads.h


class ThreadStacks(Struct):
    """A thread and where it is: numbers of stacks, below 0 for none."""

    pid: u32
    user: s32
    kernel: s32
    comm: str = field(char[16])


class PythonThreadStacks(ThreadStacks):
    """One whose process may run Python: the number of the stack of that, 0 for none."""

    python: u64


class StackChoice:
    """Options that have `pid` and `tid`, and `user` and `kernel`, which leave out the other's stacks."""

    pid: tuple[int, ...]
    tid: tuple[int, ...]
    user: bool
    kernel: bool
    unwind: bool
    source: str | None

    def __post_init__(self) -> None:
        """Take one process or thread for a tuple of one, as open(pid=42) gives it."""
        for name in ("pid", "tid"):
            given: object = getattr(self, name)
            if given is None or isinstance(given, int):
                object.__setattr__(self, name, () if given is None else (given,))

    @property
    def with_user(self) -> bool:
        """Whether stacks of processes are shown."""
        return self.user or not self.kernel

    @property
    def with_kernel(self) -> bool:
        """Whether stacks of the kernel are shown."""
        return self.kernel or not self.user


def pids_option() -> Any:
    """`-p`, `--pid`: several processes, none by default."""
    return option(
        "-p",
        "--pid",
        default=(),
        metavar="PID[,PID]",
        help="only these processes",
        minimum=1,
        maximum=PID_MAX,
        names="process",
    )


def tids_option(letter: str = "-t") -> Any:
    """`-t`, `--tid`: several threads, none by default; `letter` where the book's tool has another."""
    return option(
        letter,
        "--tid",
        default=(),
        metavar="TID[,TID]",
        help="only these threads",
        minimum=1,
        maximum=PID_MAX,
        names="thread",
    )


def stack_storage_option() -> Any:
    """`--stack-storage-size`, for `bpf.max_stacks`."""
    return option(
        "--stack-storage-size",
        default=STACKS,
        metavar="N",
        help="limit of different stacks",
        minimum=1,
        maximum=1 << 24,
    )


def unwind_option() -> Any:
    """`--unwind` of tools, which follows calls where there are no frame pointers."""
    return flag("--unwind", help="whole stacks of programs without frame pointers, by their .eh_frame")


def source_option() -> Any:
    """`--source` of tools, which shows what DWARF says of a program's addresses."""
    return option(
        "--source",
        metavar="WHAT",
        choices=(INLINED, LINES),
        help="inlined: show functions that were inlined, by the DWARF of programs; lines: source lines, too",
    )


def user_frames(bpf: BPF, number: int, pid: int, source: str | None) -> tuple[Frame, ...]:
    """The frames of a process's stack, with what `--source` asks for."""
    return with_lines(bpf.stacks.user(number, pid, source=source is not None), source)


def with_lines(frames: tuple[Frame, ...], source: str | None) -> tuple[Frame, ...]:
    """Frames with their lines, if `--source` asks for these."""
    return tuple(frame.with_line() for frame in frames) if source == LINES else frames


class ThreadWalk:
    """How a tool's probes find the stacks of a thread, by its options; `record` is what `here` makes."""

    def __init__(self, bpf: BPF, options: StackChoice) -> None:
        self._options = options
        with_python = options.with_user and getattr(options, "python", False)
        self._python = PythonStacks(bpf, options.pid) if with_python else None
        self._unwinder = Unwinder(bpf, options.pid) if options.with_user and options.unwind else None
        self.record = PythonThreadStacks if with_python else ThreadStacks

    def here(self) -> ThreadStacks:
        """In a probe: the current thread and its stacks."""
        if self._python is not None:
            return PythonThreadStacks(
                pid=pid(), user=self._user(), kernel=self._kernel(), comm=comm(), python=self._python.here()
            )
        return ThreadStacks(pid=pid(), user=self._user(), kernel=self._kernel(), comm=comm())

    def _user(self) -> int:
        if not self._options.with_user:
            return -1
        return ustack() if self._unwinder is None else self._unwinder.ustack()

    def _kernel(self) -> int:
        return kstack() if self._options.with_kernel else -1


def stacks(bpf: BPF, options: StackChoice, thread: ThreadStacks) -> dict[str, Any]:
    """Arguments of a `Stack` or a `StackPart` that shows a thread: None for stacks that were not asked for."""
    with_source = options.source is not None
    user = bpf.stacks.user(thread.user, thread.pid, source=with_source) if options.with_user else None
    python = python_stacks(bpf)
    if python is not None and user is not None and isinstance(thread, PythonThreadStacks):
        user = python.merged(thread.python, thread.pid, user)
    if user is not None:
        user = with_lines(user, options.source)
    return {
        "comm": thread.comm,
        "pid": thread.pid,
        "user": user,
        "kernel": bpf.stacks.kernel(thread.kernel) if options.with_kernel else None,
    }


class Looks:
    """Reads of processes while they live: the names of Python's functions, and the rules by which files are unwound."""

    def __init__(self, bpf: BPF) -> None:
        self._due = {each: 0.0 for each in (python_stacks(bpf), unwinder_of(bpf)) if each is not None}

    def look(self) -> float | None:
        """Read what is due; in how many seconds to look again, None for never."""
        for each, due in self._due.items():
            if time.monotonic() >= due:
                self._due[each] = time.monotonic() + each.look()
        return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None


def wait(bpf: BPF, stop: Stop) -> None:
    """Wait for the stop, and look meanwhile."""
    looks = Looks(bpf)
    while not stop.wait(looks.look()):
        pass


def counted(bpf: BPF, options: Any, stop: Stop) -> Iterator[Stack]:
    """The stacks in the map `counts` at the stop, since the call before, the most frequent first."""
    wait(bpf, stop)
    # After Ctrl-C there is little time for names: the most frequent have them first.
    for thread, count in sorted(bpf["counts"].interval().items(), key=lambda item: -item[1]):
        yield Stack(count, **stacks(bpf, options, thread))
    bpf.stacks.release()
