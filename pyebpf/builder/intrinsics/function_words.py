"""`function_ip()`: which function a probe on several was called for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.words import word
from pyebpf.builder.values.integers import Int
from pyebpf.compiler.ir import Op
from pyebpf.errors import OnlyInProbe
from pyebpf.types import U64
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helper_ids import GET_FUNC_IP

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

__all__ = ["function_ip"]

KINDS = (ProgramType.KPROBE, ProgramType.TRACING)


def _function_ip(p: ProgramBuilder) -> Int:
    if p.kind not in KINDS:
        p.fail("function_ip() is known where a probe is on functions: @bpf.kprobe, @bpf.fentry, @bpf.function …")
    if not p.target.has(f"helper:get_func_ip@{p.kind.name.lower()}"):
        return Int(_from_register(p), U64)
    return Int(p.b.call(GET_FUNC_IP, p.context, comment="function_ip()"), U64)


def _from_register(p: ProgramBuilder) -> ir.Value:
    """The address by the program counter, which a kprobe leaves right behind its trap instruction.

    For kernels without the helper: Linux commit 9ffd9f3ff719 ("bpf: Add bpf_get_func_ip helper for kprobe programs")
    (v5.15).
    """
    from pyebpf.builder.contexts import registers
    from pyebpf.specs.attach.kernel_functions import split
    from pyebpf.specs.attach.kprobes import Kprobe

    attach = p.program_context.attach
    if not isinstance(attach, Kprobe) or attach.returns:
        p.fail(
            "this kernel tells only a probe at a function's entry, by @bpf.kprobe, which function that is (helper "
            "bpf_get_func_ip, since Linux 5.15)"
        )
    if split(attach.target)[2]:
        return p.b.const(0)
    arch = registers.machine(p)
    return p.b.emit(Op.ADD, registers.register(p, arch.instruction), p.b.const(-arch.trap_size))


@word(_function_ip)
def function_ip() -> int:
    """Address of the function whose entry or return the probe was called for; `bpf.function_name` makes a name of it.

    0 within a function, at an offset.
    """
    raise OnlyInProbe
