"""SIGINT and SIGTERM while a tool runs. The library installs no handlers; only the command does."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.tool import Stop

__all__ = ["ending"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ending(stop: Stop) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM ask for the end, and the second be the end.

    Both are taken even where the process was started with SIGINT ignored, as shells start what runs in the
    background. The wake-up descriptor closes the gap between looking at the stop and waiting for it: the byte is
    in the pipe before the wait begins, though the handler has not run.
    """
    received = False

    def handle(_number: int, _frame: object) -> None:
        nonlocal received
        received = True
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        stop.set()

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    wakeup = signal.set_wakeup_fd(stop.wakeup, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        if not received:  # after one, the next ends the process until its very end, with no traceback
            for number, handler in before.items():
                signal.signal(number, handler)
