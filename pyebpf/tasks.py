"""Records of what tasks do, to inherit from, and the filter of their calls.

    from pyebpf.tasks import Call, CallFilter

    class Connect(Call):
        to: SocketAddress

    connects.emit(Connect(result=retval, to=to))

The time, the process and the thread's name are those of the event, unless they are given. In Python `event.error` is
the name of the error with which the call returned, None if it succeeded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import comm as current_comm, errno_name, now, pid as current_pid
from pyebpf.filters import TaskFilter
from pyebpf.types import Struct, char, field, s32, u32, u64

if TYPE_CHECKING:
    from pyebpf import Module

__all__ = ["Call", "CallFilter", "Lifespan", "Lifespans", "TaskEvent"]


class TaskEvent(Struct):
    """An event: when, in nanoseconds, and the process and the name of the thread that ran."""

    time: u64 = field(u64, default_factory=now, kw_only=True)
    pid: u32 = field(u32, default_factory=current_pid, kw_only=True)
    comm: str = field(char[16], default_factory=current_comm, kw_only=True)


class Call(Struct):
    """An event that is the end of a call: `result` is what it returned, an error number negated if it failed."""

    time: u64 = field(u64, default_factory=now, kw_only=True)
    pid: u32 = field(u32, default_factory=current_pid, kw_only=True)
    result: s32
    comm: str = field(char[16], default_factory=current_comm, kw_only=True)

    @property
    def error(self) -> str | None:
        """The error's name, None without one."""
        return errno_name(-self.result) if self.result < 0 else None


class Lifespan(Struct):
    """Beginning and end of something, in nanoseconds, with the process and the name of the thread that has it."""

    began: u64 = field(u64, default_factory=now, kw_only=True)
    ended: u64 = field(u64, default=0, kw_only=True)
    pid: u32 = field(u32, default_factory=current_pid, kw_only=True)
    comm: str = field(char[16], default_factory=current_comm, kw_only=True)

    @property
    def lifespan(self) -> int:
        """Nanoseconds from beginning to end."""
        return self.ended - self.began


class Lifespans:
    """Things that have begun and not ended, such as sessions, each with a record that is emitted at its end.

    `record` is a `Lifespan`; things are numbers or kernel objects. What finds no room among `size` is dropped, and
    counted under `name`; `ended` is the name of the buffer.
    """

    def __init__(self, bpf: Module, record: type[Lifespan], *, name: str, ended: str, size: int = 65_536) -> None:
        self.under_way = bpf.hash(key=u64, value=record, size=size, name=name)
        self.ended = bpf.ringbuf(record, name=ended)

    def end(self, thing: Any) -> None:
        """In a probe: the thing ends now; its record is emitted, if its beginning was seen."""
        span = self.under_way.get(thing)
        if span is not None:
            span.ended = now()
            self.ended.emit(span)
            del self.under_way[thing]


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
