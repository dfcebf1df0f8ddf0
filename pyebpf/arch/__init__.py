"""Architectures: one small file each."""

from __future__ import annotations

import os
from functools import cache

from pyebpf.arch.architecture import Architecture
from pyebpf.errors import NotFound

__all__ = ["Architecture", "architecture", "host", "syscall_name"]


def architecture(machine: str) -> Architecture:
    """The architecture that uname(2) calls `machine`; NotFound for one that pyebpf does not know."""
    if machine == "x86_64":
        from pyebpf.arch.x86_64 import X86_64

        return X86_64
    if machine == "aarch64":
        from pyebpf.arch.aarch64 import AARCH64

        return AARCH64
    raise NotFound(f"pyebpf knows nothing of the architecture {machine!r}, only of x86_64 and aarch64")


@cache
def host() -> Architecture:
    """The architecture of the machine that this runs on."""
    return architecture(os.uname().machine)


def syscall_name(number: int) -> str:
    """Name of a system call of this machine; "[unknown: N]" for a number that has none, as bcc shows it."""
    return host().system_call_names.get(number, f"[unknown: {number}]")
