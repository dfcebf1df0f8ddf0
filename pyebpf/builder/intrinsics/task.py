"""Intrinsics of the current task, the processor, the clock and the traced function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.base import intrinsic
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.strings import StringSource
from pyebpf.compiler.ir import Op, ValueType
from pyebpf.errors import OnlyInProbe
from pyebpf.types import S64, U64
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helper_ids import (
    GET_CURRENT_COMM,
    GET_CURRENT_PID_TGID,
    GET_CURRENT_UID_GID,
    GET_FUNC_IP,
    GET_NS_CURRENT_PID_TGID,
    GET_SMP_PROCESSOR_ID,
    KTIME_GET_NS,
)

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

TASK_COMM_LEN = 16

#: Types of programs that can ask for the traced function.
_FUNCTION_TYPES = (ProgramType.KPROBE, ProgramType.TRACING)


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


@intrinsic(process_number)
def pid() -> int:
    """Process id (the kernel's tgid) of the current task, as the loading process sees it.

    Its pid namespace is baked in.
    """
    raise OnlyInProbe


@intrinsic(lambda p: _task_number(p, process=False))
def tid() -> int:
    """Thread id (the kernel's pid) of the current task, as the loading process sees it."""
    raise OnlyInProbe


@intrinsic(lambda p: _half(p, GET_CURRENT_UID_GID, upper=False))
def uid() -> int:
    """Real user id of the current task, in the initial user namespace."""
    raise OnlyInProbe


@intrinsic(lambda p: _half(p, GET_CURRENT_UID_GID, upper=True))
def gid() -> int:
    """Real group id of the current task, in the initial user namespace."""
    raise OnlyInProbe


@intrinsic(lambda p: _int(p.b.call(KTIME_GET_NS)))
def now() -> int:
    """Nanoseconds of the monotonic clock (a u64), which stands still in suspend.

    What Python's time.monotonic_ns() reads outside of time namespaces.
    """
    raise OnlyInProbe


def _cpu(p: ProgramBuilder) -> Int:
    value = p.b.call(GET_SMP_PROCESSOR_ID)
    p.b.assume_bounds(value, 0, 0xFFFFFFFF)
    return _int(value, signed=True)


@intrinsic(_cpu)
def cpu() -> int:
    """Number of the processor that runs the probe."""
    raise OnlyInProbe


def _comm(p: ProgramBuilder) -> StringSource:
    def read_into(program: ProgramBuilder, address: ir.Value, size: int) -> None:
        # Linux 6.1's helper ends with a NUL and leaves what follows as it was: not all kernels pad with zeros.
        program.b.call(GET_CURRENT_COMM, address, program.b.const(size), result=ValueType.SCALAR)

    return StringSource("comm()", read_into, TASK_COMM_LEN, p.b.where)


@intrinsic(_comm)
def comm() -> str:
    """Name of the current thread, at most 15 bytes."""
    raise OnlyInProbe


def _function_ip(p: ProgramBuilder) -> Int:
    if p.program_type not in _FUNCTION_TYPES:
        p.fail("function_ip() is known where a probe is on functions: @bpf.kprobe, @bpf.fentry, @bpf.function …")
    # Since Linux commit 9ffd9f3ff719 ("bpf: Add bpf_get_func_ip helper for kprobe programs") (v5.15).
    if not p.target.has(f"helper:get_func_ip@{p.program_type.name.lower()}"):
        return Int(p.program_context.function_ip(p), U64)
    return Int(p.b.call(GET_FUNC_IP, p.context, comment="function_ip()"), U64)


@intrinsic(_function_ip)
def function_ip() -> int:
    """Address of the function whose entry or return the probe was called for; `bpf.function_name` makes a name of it.

    0 within a function, at an offset.
    """
    raise OnlyInProbe
