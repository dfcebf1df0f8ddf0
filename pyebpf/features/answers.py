"""Answers of feature probes, and how what the kernel returned becomes one."""

from __future__ import annotations

import errno
from enum import Enum

from pyebpf.uapi.errnos import ENOTSUPP

__all__ = ["UNDECIDED", "Answer", "from_errno"]


class Answer(Enum):
    """What a probe found. UNKNOWN: it could not tell, for want of a privilege or of memory; never remembered."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "could not tell"

    def __bool__(self) -> bool:
        raise TypeError("an Answer is yes, no or could-not-tell: compare it with Answer.YES")


UNDECIDED = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.EBUSY}
)
"""Errors that speak of the moment or the process, not of the kernel."""

_NO = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, ENOTSUPP, errno.E2BIG})


def from_errno(number: int) -> Answer:
    """The answer where only success means yes."""
    if number == 0:
        return Answer.YES
    return Answer.NO if number in _NO else Answer.UNKNOWN
