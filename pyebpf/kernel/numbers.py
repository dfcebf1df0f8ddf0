"""System-call numbers that the C library has no function for."""

from __future__ import annotations

import os

__all__ = ["SYSTEM_CALLS"]

# asm/unistd_64.h of x86, asm-generic/unistd.h for arm64.
_BY_MACHINE = {
    "x86_64": {"bpf": 321, "perf_event_open": 298, "fsopen": 430, "fsconfig": 431, "fsmount": 432},
    "aarch64": {"bpf": 280, "perf_event_open": 241, "fsopen": 430, "fsconfig": 431, "fsmount": 432},
}

SYSTEM_CALLS: dict[str, int] = _BY_MACHINE.get(os.uname().machine, _BY_MACHINE["x86_64"])
