"""`function_ip()`: which function a probe on several was called for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.words import word
from pyebpf.errors import OnlyInProbe
from pyebpf.specs import ProgramKind
from pyebpf.types import U64

if TYPE_CHECKING:
    from pyebpf.builder.integers import Int
    from pyebpf.builder.program import ProgramBuilder

__all__ = ["function_ip"]

GET_FUNC_IP = 173
KINDS = (ProgramKind.KPROBE, ProgramKind.TRACING)


def _function_ip(p: ProgramBuilder) -> Int:
    from pyebpf.builder.integers import Int

    if p.kind not in KINDS:
        p.fail("function_ip() is known where a probe is on functions: @bpf.kprobe, @bpf.fentry, @bpf.function …")
    if not p.target.has(f"helper:get_func_ip@{p.kind.name.lower()}"):
        p.fail("this kernel does not tell a probe its function (helper bpf_get_func_ip, since Linux 5.15)")
    return Int(p.b.call(GET_FUNC_IP, p.context, comment="function_ip()"), U64)


@word(_function_ip)
def function_ip() -> int:
    """Address of the function whose entry or return the probe was called for; `bpf.function_name` makes a name of it.

    0 within a function, at an offset.
    """
    raise OnlyInProbe
