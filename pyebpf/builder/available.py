"""Helpers that this kernel may lack: refused while compiling, in words, and not by the verifier's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helpers import helper_release

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder


def has_helper(p: ProgramBuilder, name: str) -> bool:
    """Whether programs of this type have a helper here; refuses a program whose whole type this kernel lacks."""
    if p.target.has(f"helper:{name}@{p.program_type.name.lower()}"):
        return True
    if p.program_type is ProgramType.SYSCALL and not p.target.has("program:syscall"):
        p.fail("this kernel has no syscall programs (since Linux 5.14): do it in Python, or in a probe on an event")
    return False


def need_helper(p: ProgramBuilder, name: str, what: str, instead: str = "") -> None:
    """Refuse `what` ("loop()") where programs of this type lack the helper that it takes."""
    if has_helper(p, name):
        return
    release = helper_release(name)
    since = f", which came with Linux {release}" if release else ""
    remedy = f": {instead}" if instead else ""
    p.fail(f"{what}: this kernel has no helper bpf_{name} for {p.program_type_name} programs{since}{remedy}")
