"""Processes under /proc."""

from __future__ import annotations

import os

__all__ = ["threads"]


def threads(pid: int) -> set[int]:
    """Ids of the threads of a process; empty if it does not exist (any more)."""
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except (FileNotFoundError, ProcessLookupError):
        return set()
