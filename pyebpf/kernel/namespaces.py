"""Namespaces: the number of one, and work in another network namespace than this process's."""

from __future__ import annotations

import fcntl
import os
import stat
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from pyebpf.kernel.shortages import start_thread
from pyebpf.kernel.syscall import syscall

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# linux/sched.h
CLONE_NEWNET = 0x4000_0000
_NS_GET_NSTYPE = 0xB703  # linux/nsfs.h


def namespace_number(path: str, kind: int) -> int | None:
    """The inode number of the namespace that a file stands for; None if it is none of that kind (`CLONE_NEW…`).

    Raises OSError where the file can't be opened.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        return None
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.fstat(opened).st_ino if _kind(opened) == kind else None
    finally:
        os.close(opened)


def _kind(opened: int) -> int:
    """The kind of namespace that a descriptor stands for; 0 if it is no namespace's."""
    try:
        return fcntl.ioctl(opened, _NS_GET_NSTYPE)
    except OSError:
        return 0


def in_network_namespace(namespace: int, work: Callable[[], T]) -> T:
    """Call `work` in the network namespace of a descriptor; what it returns or raises.

    A thread that ends with the call enters it: this one stays where it is. Raises OSError, EINVAL for what is no
    network namespace; KernelError where no thread can be started.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            syscall("setns", namespace, CLONE_NEWNET)
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised where the call is waited for
            errors.append(error)

    thread = Thread(target=enter)
    start_thread(thread)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
