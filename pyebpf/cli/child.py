"""A command that runs with a script: it waits until the probes are attached, and ends no later than the script."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
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
        found = shutil.which(self._words[0]) if self._words else None
        if found is None:
            raise PyebpfError(f"-c {command!r}: {_missing(self._words)}")
        self._path = found
        self._begun = self._over = False

    def __enter__(self) -> Self:
        sys.stdout.flush()
        read, self._begin = os.pipe()
        waits, ready = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            self._become(read, ready)
        os.close(read)
        os.close(ready)
        os.read(waits, 1)  # until it has closed its end
        os.close(waits)
        return self

    def _become(self, read: int, ready: int) -> None:
        """Be the command once there is a byte; without one nobody wants it any more.

        A process that was just copied fetches each page that it touches, and probes of `cpid` would take that for the
        command's doing. So it does before they are attached, without success, what it will do then.
        """
        try:
            os.close(self._begin)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.read(read, 0)
            self._execute("")
            os.close(ready)
            if os.read(read, 1):
                self._execute(self._path)
        finally:
            os._exit(127)

    def _execute(self, path: str) -> None:
        """Be the program at a path; return if it cannot be run."""
        try:
            os.execv(path, self._words)  # noqa: S606 - the command is what was asked for
        except OSError as error:
            if path:
                os.write(2, f"-c {path}: it cannot be run: {error.strerror}\n".encode(errors="surrogateescape"))

    def __exit__(self, *_: object) -> None:
        os.close(self._begin)
        if not self.is_over():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def start(self) -> None:
        """Let the command begin, if it has not."""
        if self._begun:
            return
        self._begun = True
        with suppress(BrokenPipeError):  # somebody killed it
            os.write(self._begin, b"\n")

    def is_over(self) -> bool:
        """Whether it has ended."""
        if not self._over:
            self._over = os.waitpid(self.pid, os.WNOHANG)[0] != 0
        return self._over


def _missing(words: list[str]) -> str:
    """Why there is no command of these words."""
    name = words[0] if words else ""
    place = Path(name)
    if "/" in name and place.is_dir():
        return f"{name} is a folder, no command"
    if not place.is_file():
        return "there is no such command"
    if not os.access(name, os.X_OK):
        return f"{name} is not executable: chmod +x, or name the program that runs it first, as in -c 'sh {name}'"
    return f"{name} is not in PATH: write ./{name}"
