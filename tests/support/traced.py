"""Programs and a library to trace, built from traced.c: what they call, and how often, is told line by line."""

from __future__ import annotations

import mmap
import os
import random
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from pyebpf.features import Features, Support, _remembered
from tests.support.native import build_native

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pyebpf import BPF

__all__ = ["INSTRUCTION", "Traced", "binary", "kill_often"]

#: Bytes of one of the instructions of `stepping`.
INSTRUCTION = {"x86_64": 1, "aarch64": 4}[os.uname().machine]

_SOURCE = Path(__file__).with_suffix(".c")
_KINDS = {
    "pie": ("-pie", "-fPIE"),
    "static": ("-static", "-no-pie", "-DSTATIC"),
    "library": ("-shared", "-fPIC", "-DLIBRARY"),
}
_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed when the tests end


@cache
def binary(kind: str) -> str:
    """The path of the program ("pie", "static") or of the library ("library"). Skips without gcc."""
    if not _folders:
        _folders.append(tempfile.TemporaryDirectory(prefix="traced-"))
    folder = Path(_folders[0].name)
    options = list(_KINDS[kind])
    if kind == "library":
        versions = folder / "versions"
        versions.write_text("V1 { }; V2 { } V1;\n")
        options.append(f"-Wl,--version-script={versions}")
    target = folder / ("libtraced.so.1" if kind == "library" else f"traced-{kind}")
    return str(build_native(_SOURCE.read_text(), target, *options))


class Traced:
    """A running program; it is there, and has done nothing, once this is made."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer("ready")

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, line: str) -> None:
        """Have it do something, and return when that is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        self._answer("done")

    def _answer(self, word: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line.strip() != word:
            pytest.fail(f"the traced program said {line!r}, status {self.process.poll()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


_WORKING, _ATTACHED, _SEEN = b"was"
_PATIENCE = 60


def kill_often(bpf: BPF, left: Callable[[], object], times: int) -> None:
    """Have processes attach and detach `bpf` in turns, by each way there is, and kill each at some moment.

    `left` tells whether the kernel still has something of it. One that is killed while attached leaves nothing. In the
    middle of the system call that changes the code of other processes, SIGKILL makes the kernel itself give up ("failed
    to unregister, leaking uprobe"): then what is left does nothing, and the next one to detach there takes it away.
    """
    chance = random.Random(7)
    multi = Features().has("attach:uprobe_multi")
    state = mmap.mmap(-1, 1)
    for number in range(times):
        child = os.fork()
        if child == 0:
            try:
                _remembered["attach:uprobe_multi"] = Support.YES if multi and number % 2 else Support.NO
                bpf.load()
                bpf.attach()
                state[0] = _ATTACHED
                while state[0] != _SEEN:  # else it might be detached before anybody has looked
                    time.sleep(0.001)
                while True:
                    state[0] = _ATTACHED
                    time.sleep(chance.uniform(0, 0.05))
                    state[0] = _WORKING
                    bpf.detach()
                    bpf.attach()
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        deadline = time.monotonic() + _PATIENCE
        while state[0] != _ATTACHED and time.monotonic() < deadline:
            time.sleep(0.001)
        assert left(), "it was never attached"
        state[0] = _SEEN
        time.sleep(chance.uniform(0, 0.2) if number > 1 else 0)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        if state[0] == _WORKING:
            with bpf:
                pass
        while left():
            assert time.monotonic() < deadline, "something is left"
            time.sleep(0.01)
        state[0] = 0
    state.close()
