"""Names of error numbers as the tools print them: Linux's, which Python's `errno` has not for each."""

from __future__ import annotations

import errno

__all__ = ["error_name"]

#: include/uapi/asm-generic/errno.h where Python has another name of the number or none, and include/linux/errno.h: what
#: system calls return inside the kernel, where tools look, and programs never see.
_NAMES = {
    **errno.errorcode,
    35: "EDEADLK",
    95: "EOPNOTSUPP",
    133: "EHWPOISON",
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    515: "ENOIOCTLCMD",
    516: "ERESTART_RESTARTBLOCK",
    517: "EPROBE_DEFER",
    518: "EOPENSTALE",
    519: "ENOPARAM",
    521: "EBADHANDLE",
    522: "ENOTSYNC",
    523: "EBADCOOKIE",
    524: "ENOTSUPP",
    525: "ETOOSMALL",
    526: "ESERVERFAULT",
    527: "EBADTYPE",
    528: "EJUKEBOX",
    529: "EIOCBQUEUED",
    530: "ERECALLCONFLICT",
    531: "ENOGRACE",
}


def error_name(number: int) -> str:
    """`ENOENT` for 2; the number itself where there is no name."""
    return _NAMES.get(number, str(number))
