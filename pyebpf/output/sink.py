"""The stream that data goes to: flushed at each write, quiet when its reader goes away."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from errno import EAGAIN
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing import Self


class ReaderGone(Exception):
    """The other end of the output was closed (`| head`)."""


def silence(stream: TextIO) -> None:
    """Point a stream's descriptor at /dev/null, so that what it still holds is dropped without a word at exit."""
    with suppress(OSError, ValueError):
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.dup2(null, descriptor, inheritable=descriptor <= 2)
        finally:
            os.close(null)


def name_stream(error: OSError, stream: TextIO) -> None:
    """Have an error of a stream say which one, as errors of files do."""
    name = getattr(stream, "name", None)
    if error.filename is None and isinstance(name, str):
        error.filename = {"<stdout>": "standard output"}.get(name, name)


class Waiting:
    """The stream that this process is writing to now, for a signal handler that may end its waiting."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None

    def is_blocked(self) -> bool:
        """Whether a write is going on, and its stream takes nothing."""
        if self.stream is None:
            return False
        poll = select.poll()
        with suppress(OSError, ValueError):  # a stream without a descriptor waits for nobody
            poll.register(self.stream.fileno(), select.POLLOUT)
            return not poll.poll(0)
        return False

    def give_up(self) -> None:
        """Have the write that is going on come to its end in /dev/null, and all that follow."""
        if self.stream is not None:
            silence(self.stream)


waiting = Waiting()


#: Characters that a sink keeps at most, while it keeps any.
_MAX_HELD = 1 << 16


class Sink:
    """Writes text to a stream, flushing each time, so that a line is there when its event is.

    While `holds` is True it keeps what is written until `flush`, or until that is 64 KiB: for events that come by the
    thousand. Raises `ReaderGone` when nobody reads the stream any more, and `OSError` for every other failure (a full
    disk); after either the stream is silenced.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.holds = False
        self._held: list[str] = []
        self._size = 0

    def write(self, text: str) -> None:
        """Write text and flush it."""
        if self.holds:
            self._held.append(text)
            self._size += len(text)
            if self._size >= _MAX_HELD:
                self.flush()
        else:
            self._write(text)

    def flush(self) -> None:
        """Write what is held."""
        held, self._held, self._size = self._held, [], 0
        if held:
            self._write("".join(held))

    def write_bytes(self, data: bytes) -> None:
        """Write what is no text, to a stream that has a file below it."""
        self.flush()
        self._write(data)

    def _write(self, text: str | bytes) -> None:
        waiting.stream = self.stream
        try:
            self._write_all(text)
        except BrokenPipeError:
            silence(self.stream)
            raise ReaderGone from None
        except OSError as error:
            silence(self.stream)
            name_stream(error, self.stream)
            raise
        finally:
            waiting.stream = None

    def _write_all(self, text: str | bytes) -> None:
        """Write all of a text, or of bytes, whatever signals come meanwhile.

        A pipe takes a part of what is written when a signal arrives. Python's text streams forget the rest where they
        are not buffered (PYTHONUNBUFFERED); the file below them tells how much was taken.
        """
        buffer = getattr(self.stream, "buffer", None)
        if buffer is None:  # a text stream of nothing but memory
            assert isinstance(text, str), "bytes are for streams with a file below"
            self.stream.write(text)
            self.stream.flush()
            return
        raw = getattr(buffer, "raw", buffer)
        self.stream.flush()
        data = text if isinstance(text, bytes) else text.encode(self.stream.encoding, self.stream.errors or "strict")
        left = memoryview(data)
        while left:
            written = raw.write(left)
            if written is None:
                raise BlockingIOError(EAGAIN, "the output does not block, and takes nothing")
            left = left[written:]

    def line(self, text: str) -> None:
        """Write one line and flush it."""
        self.write(f"{text}\n")

    @classmethod
    def of(cls, stream: TextIO) -> Self:
        """A sink over a text stream that can show any character, as an escape where its encoding has none."""
        with suppress(AttributeError):  # only TextIOWrapper, which the standard streams are, has an encoding to set
            stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]  # see the line above
        return cls(stream)
