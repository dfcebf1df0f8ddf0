"""Names of error numbers as Linux has them, on any operating system."""

from __future__ import annotations

ENOTSUPP = 524
"""Not supported. include/linux/errno.h keeps it inside, but bpf(2) returns it; the C library does not name it."""


def errno_name(number: int) -> str:
    """`ENOENT` for 2 or -2; the number itself where there is no name."""
    from pyebpf.uapi import errno_table  # most runs meet no error to name

    return next((name for name, value in vars(errno_table).items() if value == abs(number)), str(abs(number)))
