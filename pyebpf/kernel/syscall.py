"""System calls by number. The one place where -1 becomes `OSError`."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING

from pyebpf.arch import host
from pyebpf.uapi.errnos import ENOTSUPP

if TYPE_CHECKING:
    from collections.abc import Callable

_libc = ctypes.CDLL(None, use_errno=True)
_get_errno = ctypes.get_errno
_calls = host().system_calls
_NUMBER_BPF = _calls["bpf"]


def _prototype(count: int) -> Callable[..., int]:
    """syscall(2) with `count` arguments after the number. Each look-up by item makes a function object of its own."""
    function = _libc["syscall"]
    function.argtypes = (ctypes.c_long,) * (count + 1)
    function.restype = ctypes.c_long
    return function


_by_count = [_prototype(count) for count in range(7)]
_syscall3 = _by_count[3]


def _failure() -> OSError:
    number = _get_errno()
    return OSError(number, "Operation not supported" if number == ENOTSUPP else os.strerror(number))


def syscall(name: str, *arguments: int) -> int:
    """Make the system call `name` with up to six integers (addresses among them). Restarted on EINTR.

    Raises OSError (the subclass that belongs to the errno) where the kernel returns -1.
    """
    function = _by_count[len(arguments)]
    number = _calls[name]
    while (result := function(number, *arguments)) == -1:
        # Python runs signal handlers between bytecodes, so one that raises ends this loop (as in PEP 475).
        if _get_errno() != errno.EINTR:
            raise _failure()
    return result


def bpf(command: int, attribute: int, size: int) -> int:
    """Make one bpf call: `command`, address and size in bytes of a `union bpf_attr`. Restarted on EINTR."""
    while (result := _syscall3(_NUMBER_BPF, command, attribute, size)) == -1:
        if _get_errno() != errno.EINTR:
            raise _failure()
    return result


def bpf_once(command: int, attribute: int, size: int) -> int:
    """As `bpf`, without the restart: for commands that say something of their own with EINTR."""
    result = _syscall3(_NUMBER_BPF, command, attribute, size)
    if result == -1:
        raise _failure()
    return result


def address_of(buffer: bytearray | memoryview) -> int:
    """Address of a non-empty buffer's bytes, which are writable; valid until it is resized or freed."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
