"""Processes under /proc."""

from __future__ import annotations

from pathlib import Path

__all__ = ["threads"]


def threads(pid: int) -> set[int]:
    """Ids of the threads of a process; empty if it does not exist (any more)."""
    try:
        return {int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()}
    except (FileNotFoundError, ProcessLookupError):
        return set()
