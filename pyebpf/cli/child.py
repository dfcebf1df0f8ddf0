"""A command that runs with a script: it waits until the probes are attached, and ends no later than the script."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from pyebpf.errors import PyebpfError

if TYPE_CHECKING:
    from typing import Self


class Child:
    """A process that will be the command. As a context it is there inside, and killed at the end.

    It is a copy of this process until `start`, so that its number is known, and probes can be of it alone, before the
    command begins. Raises PyebpfError for a command that there is not, or whose words cannot be told apart.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:  # "No closing quotation", "No escaped character"
            raise PyebpfError(
                f"-c {command!r}: {error}: words and quotes are as in a shell, so close what is open"
            ) from None
        if not self._words or shutil.which(self._words[0]) is None:
            raise PyebpfError(f"-c {command!r}: there is no such command")
        self._over = False

    def __enter__(self) -> Self:
        sys.stdout.flush()
        read, self._begin = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            self._become(read)
        os.close(read)
        return self

    def _become(self, read: int) -> None:
        """Be the command once there is a byte; without one nobody wants it any more."""
        try:
            os.close(self._begin)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            if os.read(read, 1):
                os.execvp(self._words[0], self._words)  # noqa: S606 - the command is what was asked for
        finally:
            os._exit(127)

    def __exit__(self, *_: object) -> None:
        os.close(self._begin)
        if not self.is_over():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def start(self) -> None:
        """Let the command begin."""
        with suppress(BrokenPipeError):  # somebody killed it
            os.write(self._begin, b"\n")

    def is_over(self) -> bool:
        """Whether it has ended."""
        if not self._over:
            self._over = os.waitpid(self.pid, os.WNOHANG)[0] != 0
        return self._over
