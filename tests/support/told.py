"""Processes that do something each time that they are told to, and say when it is done."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike


class Told:
    """A process that reads lines; to each it writes "done" when it has done it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def tell(self, *words: object) -> None:
        """Have it do something, and return when that is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        assert self.answer() == "done"

    def answer(self) -> str:
        """The next line that it writes."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")


@contextmanager
def told(*command: str | PathLike[str]) -> Iterator[Told]:
    """A process of this command, which ends with status 0 when it is told nothing more."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Told(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


@contextmanager
def waiting(*command: str | PathLike[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has written an empty line and waits for `let`; killed if something fails."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            yield process
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


class Worker:
    """A process that works once, when it is told to, and then writes what it did as JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def run(self) -> Any:
        """Let it work to its end: what it wrote."""
        out, _ = self.process.communicate("go\n")
        assert self.process.returncode == 0
        return json.loads(out)


@contextmanager
def worker(*command: str | PathLike[str]) -> Iterator[Worker]:
    """Such a process; killed if it still runs at the end."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()


def let(process: subprocess.Popen[bytes]) -> bytes:
    """Let such a process go on to its end: what it wrote."""
    written, _ = process.communicate(b"!", PATIENCE)
    assert process.returncode == 0
    return written
