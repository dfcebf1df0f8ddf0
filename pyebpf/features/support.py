"""The answer of a feature probe, and the errors of the kernel that mean each."""

from __future__ import annotations

import errno
from enum import Enum

from pyebpf.uapi.errnos import ENOTSUPP


class Support(Enum):
    """Whether a kernel has a feature. UNKNOWN: the probe lacked a privilege or memory to tell, which is not kept."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "could not tell"

    def __bool__(self) -> bool:
        raise TypeError("Support is yes, no or could-not-tell: compare it with Support.YES")


TRANSIENT_ERRNOS = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.EBUSY}
)
"""Errors that speak of the moment or the process, not of the kernel."""

_NO = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, ENOTSUPP, errno.E2BIG})


def from_errno(number: int) -> Support:
    """The answer where only success means yes."""
    if number == 0:
        return Support.YES
    return Support.NO if number in _NO else Support.UNKNOWN


def from_refusal(error: OSError) -> Support:
    """The answer where every refusal means no, but one that speaks of the moment."""
    return Support.UNKNOWN if error.errno in TRANSIENT_ERRNOS else Support.NO
