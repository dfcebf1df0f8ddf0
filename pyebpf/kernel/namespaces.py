"""Work in another network namespace than this process's."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from pyebpf.kernel.shortages import start_thread
from pyebpf.kernel.syscall import syscall

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_CLONE_NEWNET = 0x4000_0000


def in_network_namespace(namespace: int, work: Callable[[], T]) -> T:
    """Call `work` in the network namespace of a descriptor; what it returns or raises.

    A thread that ends with the call enters it: this one stays where it is. Raises OSError, EINVAL for what is no
    network namespace; KernelError where no thread can be started.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            syscall("setns", namespace, _CLONE_NEWNET)
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised where the call is waited for
            errors.append(error)

    thread = Thread(target=enter)
    start_thread(thread)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
