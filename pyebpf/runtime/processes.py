"""`ProcessWatch`: what processes have mapped, noted while they live, for the names of their stacks.

`ustack()` tells of each process that an event came from (`builder/intrinsics/processes.py`). A thread listens, since
whoever uses the library may sleep, and most processes are gone by the time that their stacks are printed.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING

from pyebpf.errors import KernelError
from pyebpf.kernel.shortages import start_thread

if TYPE_CHECKING:
    from pyebpf.objects import KernelMap
    from pyebpf.symbols.process import Processes

_PERIOD_MS = 100
"""A program may submit without waking anybody."""


class ProcessWatch:
    """Listens to the ring buffer `ring` until `close()`.

    Whoever else asks `processes` holds the `lock`. All that is needed has been imported before the first event.
    """

    def __init__(self, ring: KernelMap, processes: Processes) -> None:
        from pyebpf.events import RingBuffer
        from pyebpf.types import U32

        self._processes = processes
        self.lock = Lock()
        self._events = RingBuffer(ring, U32)
        self._wakeup = os.pipe2(os.O_CLOEXEC)
        self._poller = select.poll()
        self._thread = Thread(target=self._listen, name="pyebpf processes", daemon=True)
        try:
            self._poller.register(self._events.fileno(), select.POLLIN)
            self._poller.register(self._wakeup[0], select.POLLIN)
            start_thread(self._thread)
        except (KernelError, OSError):
            self._close_files()
            raise

    def _listen(self) -> None:
        while not any(descriptor == self._wakeup[0] for descriptor, _ in self._poller.poll(_PERIOD_MS)):
            with suppress(OSError):  # no descriptor is left: whoever asks next is told
                self.catch_up()

    def catch_up(self) -> None:
        """Take note of all processes that were told of."""
        # The lock is held from the buffer on: who asks then finds what the buffer had.
        with self.lock:
            for pid in self._events.poll(0):
                self._processes.see(pid)

    def close(self) -> None:
        """End the thread."""
        os.write(self._wakeup[1], b"\0")
        self._thread.join()
        self._close_files()

    def _close_files(self) -> None:
        self._events.close()
        for descriptor in self._wakeup:
            os.close(descriptor)
