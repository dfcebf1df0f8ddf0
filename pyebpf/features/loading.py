"""Loading probe programs: the smallest that every kind takes."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.asm import build, encode
from pyebpf.kernel import bpf
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.asm import Instruction
    from pyebpf.btf import Btf

_LOG_SIZE = 1 << 14


class Load(NamedTuple):
    """Load attributes of a kind: its attach type, flags, the returned number, and the BTF name that it attaches to."""

    attach_type: AttachType | None = None
    flags: int = 0
    result: int = 0
    target: str = ""


# Kinds that are not loaded with all zeros. RAW_TRACEPOINT, KPROBE and the rest are.
LOADS: dict[ProgramType, Load] = {
    ProgramType.CGROUP_SOCK_ADDR: Load(AttachType.CGROUP_INET4_CONNECT, result=1),
    ProgramType.CGROUP_SOCKOPT: Load(AttachType.CGROUP_GETSOCKOPT, result=1),
    ProgramType.CGROUP_SOCK: Load(AttachType.CGROUP_INET_SOCK_CREATE, result=1),
    ProgramType.SK_LOOKUP: Load(AttachType.SK_LOOKUP, result=1),
    ProgramType.SK_REUSEPORT: Load(AttachType.SK_REUSEPORT_SELECT, result=1),
    ProgramType.NETFILTER: Load(AttachType.NETFILTER, result=1),
    ProgramType.LIRC_MODE2: Load(AttachType.LIRC_MODE2),
    ProgramType.FLOW_DISSECTOR: Load(AttachType.FLOW_DISSECTOR),
    ProgramType.TRACING: Load(AttachType.TRACE_RAW_TP, target="btf_trace_sched_switch"),
    ProgramType.LSM: Load(AttachType.LSM_MAC, target="bpf_lsm_file_open"),
    ProgramType.SYSCALL: Load(flags=BPF_F_SLEEPABLE),
}


class Outcome(NamedTuple):
    """errno (0: loaded) and the verifier's log."""

    errno: int
    log: str


def finish(result: int = 0) -> tuple[Instruction, ...]:
    """`return result`."""
    return build.mov64(build.R0, result), build.exit_()


def target_of(load: Load, btf: Callable[[], Btf] | None) -> int | None:
    """BTF id that a kind attaches to: 0 if it needs none, None if it cannot be found out."""
    if not load.target:
        return 0
    if btf is None:
        return None
    from pyebpf.btf import Kind

    found = btf().find(load.target, {Kind.FUNC, Kind.TYPEDEF})  # tp_btf's targets are typedefs
    return found[0] if found else None


def attempt(
    instructions: Sequence[Instruction],
    program_type: ProgramType = ProgramType.SOCKET_FILTER,
    *,
    load: Load | None = None,
    target: int = 0,
    fd_array: bytes = b"",
    ifindex: int = 0,
) -> Outcome:
    """Load a program and close it again."""
    how = load if load is not None else LOADS.get(program_type, Load())
    result = bpf.prog_load(
        program_type,
        encode(instructions),
        name="probe",
        expected_attach_type=how.attach_type or 0,
        flags=how.flags,
        attach_btf_id=target,
        fd_array=fd_array,
        ifindex=ifindex,
        log_level=1,
        log_size=_LOG_SIZE,
    )
    if result.descriptor is not None:
        result.descriptor.close()
    return Outcome(result.errno, result.log)


def forbidden(outcome: Outcome) -> bool:
    """Whether the kernel refuses a kind to everybody, as one locked down does with trampolines: EPERM without a word.

    It must take another program from this process: else it is the process that may not.
    """
    return (
        outcome.errno == errno.EPERM
        and not outcome.log
        and attempt(finish(), ProgramType.TRACEPOINT, load=Load()).errno == 0
    )
