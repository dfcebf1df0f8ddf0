"""Whether what an option names by a number is on this machine: a process, a thread, a processor.

Asked when a tool starts, since its programs can be compiled, and listed, for any machine.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Kind", "not_of_process", "why_absent"]

#: What the number of an option names; "" for what need not be there yet: a user, a port.
Kind = Literal["", "process", "thread", "processor"]

PROCESSORS = "/sys/devices/system/cpu/online"


def why_absent(kind: Kind, number: int) -> str:
    """Why there is no such thing, in words; empty if there is, or the machine does not tell."""
    return _REASONS[kind](number) if kind else ""


def not_of_process(thread: int, process: int) -> str:
    """Whose the thread is, in words, if it is not that process's."""
    owner = int(_status(thread).get("Tgid", process))
    return "" if owner == process else f"thread {thread} is of process {owner}, not of {process}"


def _process(pid: int) -> str:
    if not _is_there(pid):
        return f"there is no process {pid}"
    status = _status(pid)
    owner = int(status.get("Tgid", pid))
    if owner != pid:
        return f"{pid} is a thread of process {owner}"
    # The first thread may have ended before the others.
    return f"process {pid} has ended" if _is_zombie(status) and status.get("Threads") == "1" else ""


def _thread(tid: int) -> str:
    if not _is_there(tid):
        return f"there is no thread {tid}"
    return f"thread {tid} has ended" if _is_zombie(_status(tid)) else ""


def _processor(number: int) -> str:
    try:
        online = Path(PROCESSORS).read_text(encoding="ascii").strip()
    except OSError:
        return ""
    for part in online.split(","):
        first, _, last = part.partition("-")
        if int(first) <= number <= int(last or first):
            return ""
    return f"processor {number} is not online, only {online}"


_REASONS: dict[str, Callable[[int], str]] = {"process": _process, "thread": _thread, "processor": _processor}


def _is_there(task: int) -> bool:
    try:
        os.kill(task, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True


def _status(task: int) -> dict[str, str]:
    """The lines of /proc/TASK/status; none where /proc hides it, or is another pid namespace's."""
    with suppress(OSError):
        if str(Path("/proc/self").readlink()) == str(os.getpid()):
            lines = Path(f"/proc/{task}/status").read_text(encoding="utf-8", errors="replace").splitlines()
            return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {}


def _is_zombie(status: dict[str, str]) -> bool:
    return status.get("State", "").startswith(("Z", "X"))
