"""The friendly words: `pid()`, `comm()`, `now()` and the like, usable inside probes only.

A word is declared as a typed function for people and type checkers; what it appends to a program stands in the
decorator. Called by Python itself it raises OnlyInProbe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyebpf.builder.values.entity import Entity
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.methods import invoke
from pyebpf.builder.values.strings import StringSource
from pyebpf.compiler.ir import Kind, Op
from pyebpf.errors import OnlyInProbe
from pyebpf.types import S64, U64
from pyebpf.uapi.helper_ids import (
    GET_CURRENT_COMM,
    GET_CURRENT_PID_TGID,
    GET_CURRENT_UID_GID,
    GET_NS_CURRENT_PID_TGID,
    GET_SMP_PROCESSOR_ID,
    KTIME_GET_NS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

__all__ = ["Word", "comm", "cpu", "gid", "now", "pid", "process_number", "tid", "uid", "word"]

P = ParamSpec("P")
R = TypeVar("R")

TASK_COMM_LEN = 16


class Word(Entity):
    """A name that stands for code: calling it in a probe runs `build(p, *arguments, **keywords)` while compiling."""

    def __init__(self, name: str, build: Callable[..., Any], documentation: str | None) -> None:
        self.name = name
        self.build = build
        self.__doc__ = documentation
        self.__name__ = name

    def describe(self) -> str:
        """Return the word, as written where it is an operand."""
        return f"{self.name} without its parentheses"

    def call(self, p: ProgramBuilder, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Build the word's code; an argument that it does not take is an error."""
        return invoke(p, f"{self.name}()", self.build, arguments, keywords)

    def __call__(self, *_arguments: Any, **_keywords: Any) -> Any:
        """Refuse: only a probe can ask."""
        msg = f"{self.name}() has an answer only inside a probe, on each event"
        raise OnlyInProbe(msg)


def word(build: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a word: the decorated function gives its name, types and documentation, `build` its code."""

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        return Word(function.__name__, build, function.__doc__)

    return declare


def _int(value: ir.Value, *, signed: bool = False) -> Int:
    return Int(value, S64 if signed else U64)


def _half(p: ProgramBuilder, helper: int, *, upper: bool) -> Int:
    """One 32-bit half of what a helper returns."""
    both = p.b.call(helper)
    half = p.b.emit(Op.LSHR, both, p.b.const(32)) if upper else p.b.emit(Op.ZEXT, both, size=4)
    p.b.assume_bounds(half, 0, 0xFFFFFFFF)
    return _int(half, signed=True)


def process_number(p: ProgramBuilder) -> Int:
    """Return the value of `pid()`."""
    return _task_number(p, process=True)


def _task_number(p: ProgramBuilder, *, process: bool) -> Int:
    namespace = p.target.pid_namespace
    if namespace is None:
        return _half(p, GET_CURRENT_PID_TGID, upper=process)
    # struct bpf_pidns_info { __u32 pid; __u32 tgid; }; zeros for a task that the namespace cannot see, as the helper
    # clears it.
    device, inode = namespace
    answer = p.b.slot_address(p.b.slot(8, name="pidns"))
    p.b.call(GET_NS_CURRENT_PID_TGID, p.b.const(device), p.b.const(inode), answer, p.b.const(8))
    return _int(p.b.load(answer, 4 if process else 0, 4), signed=True)


@word(process_number)
def pid() -> int:
    """Process id (the kernel's tgid) of the current task, as the loading process sees it.

    Its pid namespace is baked in.
    """
    raise OnlyInProbe


@word(lambda p: _task_number(p, process=False))
def tid() -> int:
    """Thread id (the kernel's pid) of the current task, as the loading process sees it."""
    raise OnlyInProbe


@word(lambda p: _half(p, GET_CURRENT_UID_GID, upper=False))
def uid() -> int:
    """Real user id of the current task, in the initial user namespace."""
    raise OnlyInProbe


@word(lambda p: _half(p, GET_CURRENT_UID_GID, upper=True))
def gid() -> int:
    """Real group id of the current task, in the initial user namespace."""
    raise OnlyInProbe


@word(lambda p: _int(p.b.call(KTIME_GET_NS)))
def now() -> int:
    """Nanoseconds of the monotonic clock (a u64), which stands still in suspend.

    What Python's time.monotonic_ns() reads outside of time namespaces.
    """
    raise OnlyInProbe


def _cpu(p: ProgramBuilder) -> Int:
    value = p.b.call(GET_SMP_PROCESSOR_ID)
    p.b.assume_bounds(value, 0, 0xFFFFFFFF)
    return _int(value, signed=True)


@word(_cpu)
def cpu() -> int:
    """Number of the processor that runs the probe."""
    raise OnlyInProbe


def _comm(p: ProgramBuilder) -> Any:
    def read_into(program: ProgramBuilder, address: ir.Value, size: int) -> None:
        # Linux 6.1's helper ends with a NUL and leaves what follows as it was: not all kernels pad with zeros.
        program.b.call(GET_CURRENT_COMM, address, program.b.const(size), result=Kind.SCALAR)

    return StringSource("comm()", read_into, TASK_COMM_LEN, p.b.where)


@word(_comm)
def comm() -> str:
    """Name of the current thread, at most 15 bytes."""
    raise OnlyInProbe
