"""Run a command that must not outlast a limit: `python3 -m tests.vm.deadline --limit 60 -- COMMAND`.

A test of the kernel can leave processes that no signal ends. So this never waits for one: at the limit it asks the
command to end, kills what is left of all that it started, names what even that did not end, and returns.
The standard library is all it needs. Exit status: the command's, 124 at the limit, 128 + N after signal N.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from types import FrameType

LATE = 124  # as coreutils' timeout
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h: orphans of this process's descendants become its children
_PAUSE = 0.05


class Process(NamedTuple):
    """A row of the process table: `state` is proc(5)'s letter."""

    pid: int
    parent: int
    state: str
    name: str


class _Stopped(Exception):
    """A signal asked for the end; `args[0]` is its number."""


def run(command: list[str], limit: float, grace: float = 10.0) -> int:
    """Run `command`, its output going to this process's; its exit status, or LATE after `limit` seconds.

    It gets `grace` seconds between SIGTERM and SIGKILL, and as long to be gone; what is still there then stays.
    """
    # Should even this process hang (the reader of its output may), SIGALRM's default is its end.
    signal.setitimer(signal.ITIMER_REAL, limit + 2 * grace + 15)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A file, not a pipe: whoever outlives the command cannot keep a reader waiting by holding it.
    with tempfile.TemporaryFile() as output:
        copy = _Copy(output.fileno())
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            _say(f"{command[0]}: {error.strerror}")
            return 127
        status: int | None = None
        try:
            status = _wait(child, time.monotonic() + limit, copy)
            if status is None:
                _say(f"not finished after {limit:g} s, ending it: {' '.join(command)}")
        except _Stopped as stopped:
            status = 128 + int(stopped.args[0])
        if child.returncode is None:
            _signal_group(child.pid, signal.SIGTERM)
            _wait(child, time.monotonic() + grace, copy)
        _kill_rest(child, grace)
        copy.more()
        child.returncode = 0  # nobody waits for it any more
        return LATE if status is None else status


def _stop(number: int, _: FrameType | None) -> NoReturn:
    for other in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)  # once is enough; ending things takes a moment
    raise _Stopped(number)


def _wait(child: subprocess.Popen[bytes], deadline: float, copy: _Copy) -> int | None:
    """Exit status of the child; None if it has none by then. Reaps orphans meanwhile."""
    while True:
        copy.more()
        if _reap(child) and child.returncode is not None:
            return child.returncode if child.returncode >= 0 else 128 - child.returncode
        if time.monotonic() > deadline:
            return None
        time.sleep(_PAUSE)


def _reap(child: subprocess.Popen[bytes]) -> bool:
    """Take the exit status of every child that has one; whether `child` was among them."""
    found = False
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            found = True


def _kill_rest(child: subprocess.Popen[bytes], patience: float) -> None:
    """SIGKILL for all descendants, and for those that they have started meanwhile; say which do not end."""
    deadline = time.monotonic() + patience
    while True:
        _reap(child)
        left = [process for process in descendants(os.getpid()) if process.state != "Z"]
        if not left:
            return
        for process in left:
            _signal(process.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            names = ", ".join(f"{process.pid} ({process.name}, state {process.state})" for process in left)
            _say(f"left alone, since no signal ends them: {names}")
            return
        time.sleep(_PAUSE)


def descendants(ancestor: int) -> list[Process]:
    """All processes below `ancestor`, from /proc/PID/stat, which asks for no lock that a stuck process may hold."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only
        if name.isdigit() and (process := _process(int(name))) is not None:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = [ancestor]
    while queue:
        below = children.pop(queue.pop(), [])
        found += below
        queue += [process.pid for process in below]
    return found


def _process(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - one of hundreds
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    # "PID (NAME) STATE PPID …", where a name may hold anything, parentheses too.
    name, _, rest = text.partition("(")[2].rpartition(")")
    state, parent, *_ = rest.split()
    return Process(pid, int(parent), state, name)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)


class _Copy:
    """What is appended to a file, handed on to standard output."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._offset = 0

    def more(self) -> None:
        """Hand on what is new."""
        while piece := os.pread(self._source, 65536, self._offset):
            self._offset += len(piece)
            _write(piece)


def _say(text: str) -> None:
    _write(f"== deadline: {text}\n".encode())


def _write(content: bytes) -> None:
    while content:
        content = content[os.write(1, content) :]


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.vm.deadline", description=__doc__)
    parser.add_argument("--limit", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--grace", type=float, default=10.0, metavar="SECONDS", help="from SIGTERM to SIGKILL")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    return run(options.command, options.limit, options.grace)


if __name__ == "__main__":
    # Not sys.exit: nothing that runs at exit may wait for anything.
    os._exit(main())
