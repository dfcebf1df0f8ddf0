"""Threads and their stacks: the record that a probe makes, and the options of the tools that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import Struct, char, comm, field, kstack, pid, s32, u32, u64, ustack
from pyebpf.python_stacks import PythonStacks, python_stacks
from pyebpf.tool import Stack, option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf import BPF
    from pyebpf.tool import Stop

STACKS = 131_072
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
    """Options that have `pid`, the processes, and `user` and `kernel`, which leave out the other's stacks."""

    pid: tuple[int, ...]
    user: bool
    kernel: bool

    def __post_init__(self) -> None:
        """Take one process for a tuple of one, as open(pid=42) gives it."""
        given: object = self.pid
        if given is None or isinstance(given, int):
            object.__setattr__(self, "pid", () if given is None else (given,))

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


def key_of(python: PythonStacks | None) -> type[ThreadStacks]:
    """The record that `here` makes."""
    return ThreadStacks if python is None else PythonThreadStacks


def here(options: StackChoice, python: PythonStacks | None = None) -> ThreadStacks:
    """In a probe: the current thread and its stacks, also that of `python`."""
    if python is not None:
        return PythonThreadStacks(
            pid=pid(),
            user=ustack(),
            kernel=kstack() if options.with_kernel else -1,
            comm=comm(),
            python=python.here(),
        )
    return ThreadStacks(
        pid=pid(),
        user=ustack() if options.with_user else -1,
        kernel=kstack() if options.with_kernel else -1,
        comm=comm(),
    )


def stacks(bpf: BPF, options: StackChoice, thread: ThreadStacks) -> dict[str, Any]:
    """Arguments of a `Stack` or a `StackPart` that shows a thread: None for stacks that were not asked for."""
    user = bpf.stacks.user(thread.user, thread.pid) if options.with_user else None
    python = python_stacks(bpf)
    if python is not None and user is not None and isinstance(thread, PythonThreadStacks):
        user = python.merged(thread.python, thread.pid, user)
    return {
        "comm": thread.comm,
        "pid": thread.pid,
        "user": user,
        "kernel": bpf.stacks.kernel(thread.kernel) if options.with_kernel else None,
    }


def wait(bpf: BPF, stop: Stop) -> None:
    """Wait for the stop; meanwhile read the names of Python's functions, as long as their processes live."""
    python = python_stacks(bpf)
    pause = None if python is None else 1.0
    while not stop.wait(pause) and python is not None:
        pause = python.look()


def counted(bpf: BPF, options: Any, stop: Stop) -> Iterator[Stack]:
    """The stacks in the map `counts` at the stop, since the call before, the most frequent first."""
    wait(bpf, stop)
    # After Ctrl-C there is little time for names: the most frequent have them first.
    for thread, count in sorted(bpf["counts"].interval().items(), key=lambda item: -item[1]):
        yield Stack(count, **stacks(bpf, options, thread))
    bpf.stacks.release()
