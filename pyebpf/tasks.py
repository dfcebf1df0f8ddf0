"""Records of what tasks do, to inherit from, and the filter of their calls.

    from pyebpf.tasks import Call, CallFilter

    class Connect(Call):
        to: SocketAddress

    connects.emit(Connect(time=now(), pid=pid(), result=retval, comm=comm(), to=to))

In Python `event.error` is the name of the error with which the call returned, None if it succeeded.
"""

from __future__ import annotations

from pyebpf import errno_name
from pyebpf.filters import TaskFilter
from pyebpf.types import Struct, char, field, s32, u32, u64

__all__ = ["Call", "CallFilter", "Lifespan", "TaskEvent"]


class TaskEvent(Struct):
    """An event: when, in nanoseconds, and the process and the name of the thread that ran."""

    time: u64
    pid: u32
    comm: str = field(char[16])


class Call(Struct):
    """An event that is the end of a call: `result` is what it returned, an error number negated if it failed."""

    time: u64
    pid: u32
    result: s32
    comm: str = field(char[16])

    @property
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result < 0 else None


class Lifespan(Struct):
    """Beginning and end of something, in nanoseconds, with the process and the name of the thread that has it."""

    began: u64
    ended: u64
    pid: u32
    comm: str = field(char[16])

    @property
    def lifespan(self) -> int:
        """Nanoseconds from beginning to end."""
        return self.ended - self.began


class CallFilter:
    """The calls that a tool's options ask for: those of tasks as a `TaskFilter` has them, with `failed` none else."""

    def __init__(self, options: object) -> None:
        self.tasks = TaskFilter(options)
        self.failed = bool(getattr(options, "failed", False))

    def wanted(self, result: int) -> bool:
        """In a probe: whether a call of the current task that returns this is one of them."""
        if self.failed and result >= 0:
            return False
        return self.tasks.wanted()
