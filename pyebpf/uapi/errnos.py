"""Names of error numbers as Linux has them, on any operating system."""

from __future__ import annotations

__all__ = ["ENOTSUPP", "errno_name"]

ENOTSUPP = 524
"""Not supported. include/linux/errno.h keeps it inside, but bpf(2) returns it; the C library does not name it."""


def errno_name(number: int) -> str:
    """`ENOENT` for 2 or -2; the number itself where there is no name."""
    from pyebpf.uapi.errno_table import ERRNO_NAMES  # most runs meet no error to name

    return ERRNO_NAMES.get(abs(number), str(abs(number)))
