"""Shortages of a process, not of the kernel: descriptors, memory, threads."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.errors import KernelError

if TYPE_CHECKING:
    from threading import Thread

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Errors that speak of limits of this process or of the machine: nothing follows from them about the kernel."""


def raise_shortage(error: OSError) -> None:
    """Raise `error` again if it speaks of limits."""
    if error.errno in SHORTAGES:
        raise error


def start_thread(thread: Thread) -> None:
    """Start a thread. Raises KernelError where there is no memory for it, or no more of them are allowed."""
    try:
        thread.start()
    except RuntimeError as error:  # "can't start new thread", and no errno: pthread_create(3) gives EAGAIN
        raise KernelError(
            "a thread cannot be started: raise the limit of memory (ulimit -v, or memory.max of the control group) or "
            "of threads (ulimit -u, or pids.max of the control group)",
            errno.EAGAIN,
        ) from error
