"""The kernel's monotonic clock and this process's, which in a time namespace is another."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["monotonic_time"]

_SECOND = 1_000_000_000


def monotonic_time(kernel: int) -> int:
    """Return what time.monotonic_ns() says in this process when a probe's now() says `kernel`."""
    return kernel + _offset()


@cache
def _offset() -> int:
    """Nanoseconds that a time namespace adds (since Linux 5.5)."""
    own = Path("/proc/self")
    try:
        # The file is about the namespace of children, which one that has been unshared is not yet this process's.
        if (own / "ns/time").readlink() != (own / "ns/time_for_children").readlink():
            return 0
        clocks = [line.split() for line in (own / "timens_offsets").read_text(encoding="ascii").splitlines()]
    except OSError:
        return 0
    return next((int(s) * _SECOND + int(ns) for clock, s, ns in clocks if clock == "monotonic"), 0)
