"""Errnos in words: from `OSError` to the error that names what is missing."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pyebpf.errors import KernelError, NotPermitted, NotSupported
from pyebpf.kernel.privileges import has_capability, lockdown
from pyebpf.uapi.errnos import ENOTSUPP, errno_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

TRACING: tuple[str, ...] = ("CAP_BPF", "CAP_PERFMON")
"""Capabilities that tracing programs need."""

_UNSUPPORTED = frozenset({ENOTSUPP, errno.EOPNOTSUPP, errno.ENOSYS})


def is_unsupported(number: int | None) -> bool:
    """Whether an errno alone says that the kernel lacks the feature."""
    return number in _UNSUPPORTED


def is_refusal_of_privilege(number: int | None) -> bool:
    """Whether an errno speaks of privileges."""
    return number in {errno.EPERM, errno.EACCES}


def kernel_error(
    error: OSError | int,
    doing: str,
    *,
    needs: Sequence[str] = TRACING,
    meanings: Mapping[int, str | KernelError] | None = None,
) -> KernelError:
    """The error to raise for what the kernel returned while `doing` ("creating map counts").

    `needs` are the capabilities for it; `meanings` says what an errno stands for in this call,
    as text or as the whole error.
    """
    number = error if isinstance(error, int) else error.errno or 0
    name = errno_name(number)
    meaning = (meanings or {}).get(number)
    if isinstance(meaning, KernelError):
        meaning.errno = number
        return meaning
    if meaning is not None:
        kind = NotSupported if is_unsupported(number) else KernelError
        return kind(f"{doing}: {meaning} ({name})", number)
    if is_refusal_of_privilege(number):
        return NotPermitted(f"{doing} {_missing(needs)} ({name})", number)
    if is_unsupported(number):
        return NotSupported(f"{doing}: this kernel does not support it ({name})", number)
    reason = "" if isinstance(error, int) else f": {error.strerror}"
    if number in {errno.EMFILE, errno.ENFILE}:
        reason += ", raise the limit: ulimit -n, or fs.file-max of the whole machine"
    return KernelError(f"{doing} failed{reason} ({name})", number)


def pin_error(error: OSError, what: str, path: str | PathLike[str]) -> KernelError:
    """The error for a refused OBJ_PIN."""
    return kernel_error(
        error,
        f"pinning {what} at {path}",
        needs=("CAP_BPF",),
        meanings={
            errno.EEXIST: "something is pinned there already: unlink it first",
            errno.ENOENT: "there is no such directory: make it first",
            errno.EPERM: "that is on no bpf file system (mount -t bpf bpf DIRECTORY), or its name has a dot",
            errno.EINVAL: "objects of this type cannot be pinned",
        },
    )


def by_whom() -> str:
    """The end of "a file cannot be read": by whom, and where that is root, what else forbids it."""
    return "by this user" if os.geteuid() else "by root either: a security module or a container forbids it"


def _missing(needs: Sequence[str]) -> str:
    absent = [name for name in needs if not has_capability(name)]
    if absent:
        return f"needs root, or {' and '.join(needs)}; missing here: {', '.join(absent)}"
    level = lockdown()
    if level not in {None, "none"}:
        return f"is refused although the capabilities are there: the kernel is locked down ({level})"
    return "is refused although the capabilities are there: a security module, a container or lockdown forbids it"
