"""System calls that nobody else makes, to count events exactly: with numbers that no process can have, or marked."""

from __future__ import annotations

import ctypes
import os

from pyebpf.arch import host

#: Ids that no process can have, so that nobody else asks for them.
NO_PROCESS = 1 << 30
GETPGID = host().system_call("getpgid")

_libc = ctypes.CDLL(None, use_errno=True)


def getpgid(*numbers: int) -> None:
    """Make one system call for each number, counted from NO_PROCESS on."""
    for number in numbers:
        try:
            os.getpgid(NO_PROCESS + number)
        except ProcessLookupError:
            continue
        raise AssertionError(number)


def magic() -> int:
    """A number that no other process uses as an argument or as a system call."""
    return 0x10_0000 + os.getpid()


def getcpu(times: int) -> None:
    """Ask for the processor with `magic()` as the third argument, which the kernel does not use."""
    for _ in range(times):
        _libc.syscall(host().system_call("getcpu"), None, None, ctypes.c_long(magic()))


def getppid(times: int) -> None:
    """Ask for the parent."""
    for _ in range(times):
        os.getppid()
