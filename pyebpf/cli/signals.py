"""SIGINT and SIGTERM while a tool runs. The library installs no handlers; only the command does."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager, suppress
from time import process_time
from typing import TYPE_CHECKING, Self, TextIO

from pyebpf.cli.report import note
from pyebpf.errors import KernelError
from pyebpf.output import sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from pyebpf.tool import Stop

SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Seconds between two looks at what keeps the process from its end.
TICK = 0.1
#: Looks that may find an output blocked. Detaching takes longer than half a second where a tool has many tracepoints.
BLOCKED = 3
#: Seconds of processor time, so that a busy machine is no reason, that the search for one name may take.
SEARCH = 0.5


class Signals:
    """The handling of both signals during a run. As a context it ends with the handlers that were there before.

    Until `obey` either ends the process at once, wherever it is: there is no result yet, and what is attached goes with
    its descriptors, or the guard process removes it. Both are taken even where the process was started with SIGINT
    ignored, as shells start what runs in the background.
    """

    def __init__(self) -> None:
        self._received = False
        self._impatience: _Impatience | None = None

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        if self._impatience is not None and self._impatience.gave_up:
            note("The remaining output is lost: nobody reads it")
        signal.setitimer(signal.ITIMER_REAL, 0)  # the interpreter's end, which takes handlers away, is no place for it
        if not self._received:  # after one, the next ends the process until its very end, with no traceback
            for number, handler in self._before.items():
                signal.signal(number, handler)

    @contextmanager
    def obey(self, stop: Stop) -> Iterator[None]:
        """Inside, let the first signal ask for the end, and the second be the end.

        The wake-up descriptor closes the gap between looking at the stop and waiting for it: the byte is in the pipe
        before the wait begins, though the handler has not run.
        """

        def handle(_number: int, _frame: object) -> None:
            self._received = True
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            stop.set()
            self._impatience = _Impatience()
            signal.signal(signal.SIGALRM, self._impatience)
            signal.setitimer(signal.ITIMER_REAL, TICK, TICK)

        before = {number: signal.signal(number, handle) for number in SIGNALS}
        wakeup = signal.set_wakeup_fd(stop.wakeup, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            if not self._received:
                for number, handler in before.items():
                    signal.signal(number, handler)


@contextmanager
def until_signal() -> Iterator[Stop]:
    """Inside, a stop that the first signal asks for, or that nobody reads standard output any more."""
    from pyebpf.stop import Stop

    with Stop(reader=reader_of(sys.stdout)) as stop, Signals() as signals, signals.obey(stop):
        yield stop


def reader_of(stream: TextIO) -> int | None:
    """The descriptor whose reader may go away; None of a stream without one."""
    with suppress(OSError):
        return stream.fileno()
    return None


class _Impatience:
    """Looks, ten times a second from the first signal to the end, at what keeps the process from it, and ends that.

    An output that nobody reads is replaced by /dev/null, where the write that waits for it comes to its end. A search
    for a symbol raises the error that its caller has an answer to: the address stays without a name.
    """

    def __init__(self) -> None:
        self._blocked = 0
        self._search: FrameType | None = None
        self._since = 0.0
        self.gave_up = False

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        if sink.waiting.is_blocked():
            self._blocked += 1
            if self._blocked >= BLOCKED:
                sink.waiting.give_up()
                self.gave_up = True
        search = _search(frame)
        if search is None or search is not self._search:
            self._search, self._since = search, process_time()
        elif process_time() - self._since > SEARCH:
            self._search = None
            raise KernelError("given up: the search for a symbol took too long after the signal to end")


def _search(frame: FrameType | None) -> FrameType | None:
    """The look-up in a process's files that is being done, if one is; an error is an answer to who asked for it."""
    found = None
    while frame is not None:
        if frame.f_globals.get("__name__") == "pyebpf.symbols.process":
            found = frame
        frame = frame.f_back
    return found
