"""Commands that trace, started by the same means and watched from outside: shared by the benchmarks beside peers."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import ENVIRONMENT, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PATIENCE = 20.0  # seconds that a command may take to attach, or to end
SETTLED = 0.5  # seconds without a program that had not run before
PERIOD = 0.0005  # seconds between events while a command starts
PYEBPF = (str(Path(sys.executable).with_name("pyebpf")),)  # `python -m` would load runpy first, 3 ms
PREFIX = "PEERS"  # the environment variable with what comes before a peer's command, such as `chroot FOLDER`
# A prefix may take longer than the tool itself: the shell behind it says that it is there, and waits.
SHELL = ("sh", "-c", 'echo; read -r _; exec "$@"', "sh")


def prefix() -> list[str]:
    """What comes before a peer's command."""
    return shlex.split(os.environ.get(PREFIX, ""))


def installed(commands: Sequence[str]) -> set[str]:
    """Those of `commands` that are found behind the prefix."""
    script = 'for name; do command -v "$name" >/dev/null && echo "$name"; done; true'
    output = subprocess.run([*prefix(), "sh", "-c", script, "sh", *commands], stdout=subprocess.PIPE, check=True).stdout
    return set(output.decode().split())


class Contestant:
    """A command that has been told to start; `began` is time.monotonic() of that moment.

    Its programs are those of its descriptors: whatever else is loaded on the machine does not count.
    """

    def __init__(self, command: Sequence[str], output: Path) -> None:
        self._output = output
        self._command = command
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT
            )
        self._programs: set[int] = set()  # descriptors of the process
        self.peak_mib = 0.0
        self._wait(lambda: output.stat().st_size > 0, "was not started")
        assert self._process.stdin is not None
        self.began = time.monotonic()
        self._process.stdin.write(b"\n")
        self._process.stdin.close()

    def _wait(self, condition: Callable[[], bool], complaint: str) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{complaint}: {self._said()}")
            time.sleep(PERIOD)

    def _said(self) -> str:
        """The error that it told, or its last words."""
        lines = self.output().strip().splitlines() or ["no output"]
        return next((line for line in lines if "ERROR" in line), lines[-1]).strip()

    def output(self) -> str:
        """All that it has printed."""
        return self._output.read_text(encoding="utf-8", errors="replace").partition("\n")[2]

    def programs(self) -> dict[int, tuple[int, int]]:
        """Runs and nanoseconds of each of its loaded programs, by the program's number."""
        found = {}
        folder = Path(f"/proc/{self._process.pid}")
        for descriptor in (folder / "fd").iterdir():
            try:
                if str(descriptor.readlink()) == "anon_inode:bpf-prog":
                    lines = (folder / "fdinfo" / descriptor.name).read_text().splitlines()
                    facts = dict(line.split(":\t") for line in lines)
                    found[int(facts["prog_id"])] = int(facts["run_cnt"]), int(facts["run_time_ns"])
            except (FileNotFoundError, ProcessLookupError):  # closed since
                continue
        return found

    def attached(self, event: Callable[[], object]) -> float:
        """Seconds from the start until the last of its busy programs ran for the first time, by making events.

        Busy is what runs at a tenth of the events of the busiest at least: not what begins or ends a script.
        """
        first: dict[int, float] = {}
        until = self.began + PATIENCE
        while time.monotonic() < until:
            event()
            new = [number for number, (runs, _) in self.programs().items() if runs and number not in first]
            if new:
                first |= dict.fromkeys(new, time.monotonic())
                until = time.monotonic() + SETTLED
            if self._process.poll() is not None:
                raise RuntimeError(f"does not run here: {self._said()}")
            time.sleep(PERIOD)
        if not first:
            raise RuntimeError(f"none of its programs ran: {self._said()}")
        runs_of = {number: runs for number, (runs, _) in self.programs().items() if number in first}
        busy = max(runs_of.values()) / 10
        return max(moment for number, moment in first.items() if runs_of.get(number, 0) >= busy) - self.began

    def until(self, condition: Callable[[], bool], event: Callable[[], object]) -> float:
        """Seconds from the start until the condition is true, by making events."""

        def made() -> bool:
            event()
            return condition()

        self._wait(made, "does not run here")
        return time.monotonic() - self.began

    def printed(self, text: str) -> int:
        """How often `text` was printed."""
        return self._output.read_bytes().count(text.encode())

    def quiet(self) -> float:
        """time.monotonic() of the last output, once there was none for a while."""
        size, moment = -1, time.monotonic()
        while time.monotonic() < moment + SETTLED:
            time.sleep(PERIOD)
            if (now := self._output.stat().st_size) != size:
                size, moment = now, time.monotonic()
        return moment

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Keep it from running in the body."""
        self._process.send_signal(signal.SIGSTOP)
        self._wait(lambda: self._state() == "T", "does not stop")
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _state(self) -> str:
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2][:1]

    def stop(self) -> float:
        """Seconds from SIGINT to the exit."""
        signalled = time.monotonic()
        self._process.send_signal(signal.SIGINT)
        while self._process.poll() is None:
            self._look_at_memory()
            if time.monotonic() > signalled + PATIENCE:
                self._process.kill()
                raise RuntimeError("did not end at SIGINT")
            time.sleep(PERIOD)
        return time.monotonic() - signalled

    def _look_at_memory(self) -> None:
        # Not ru_maxrss, which an execve() carries over from the process that forked.
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.peak_mib = int(line.split()[1]) / 1024

    def end(self) -> None:
        """End it, if it is still there."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


@contextmanager
def contestant(command: Sequence[str]) -> Iterator[Contestant]:
    """A command, whole with its prefix, that is started now and killed in the end unless it has stopped."""
    with tempfile.TemporaryDirectory() as scratch:
        running = Contestant(command, Path(scratch) / "output")
        try:
            yield running
        finally:
            running.end()
