"""Processes and threads under /proc, processors, disks, and whether there is one of a number or name."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyebpf.errors import NotFound, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PROCESSORS, DISKS = "/sys/devices/system/cpu/online", "/sys/block"


def threads(pid: int) -> set[int]:
    """Ids of the threads of a process; empty if it does not exist (any more)."""
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except (FileNotFoundError, ProcessLookupError):
        return set()


def check_exists(named: Iterable[tuple[str, str, Any]]) -> None:
    """Raise NotFound for the first (option, kind, number) that is not on this machine, or not with the others."""
    given = list(named)
    for option, kind, number in given:
        if reason := missing_reason(kind, number):
            raise NotFound(f"{option}: {reason}")
    processes = [number for _, kind, number in given if kind == "process"]
    for option, kind, number in given:
        if kind == "thread" and processes and (reason := _not_of_processes(number, processes)):
            raise NotFound(f"{option}: {reason}")


def missing_reason(kind: str, number: Any) -> str:
    """Why there is no such process, thread, processor or disk; empty if there is, or the machine does not tell."""
    return _REASONS[kind](number)


def _not_of_processes(thread: int, processes: Sequence[int]) -> str:
    """Whose the thread is, in words, if it is none of these processes'."""
    owner = int(_status(thread).get("Tgid", processes[0]))
    others = " or ".join(map(str, processes))
    return "" if owner in processes else f"thread {thread} is of process {owner}, not of {others}"


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
        online = _text(PROCESSORS).strip()
    except OSError:
        return ""
    for part in online.split(","):
        first, _, last = part.partition("-")
        if int(first) <= number <= int(last or first):
            return ""
    return f"processor {number} is not online, only {online}"


def _disk(name: str) -> str:
    """Requests are for whole disks, which /sys/block lists; where a name has a slash, with an exclamation mark."""
    try:
        there = [each.replace("!", "/") for each in os.listdir(DISKS)]
    except OSError:
        return ""
    if name in there:
        return ""
    is_name = name not in ("", ".", "..")
    owner = next((disk for disk in there if is_name and os.path.isdir(f"{DISKS}/{disk.replace('/', '!')}/{name}")), "")
    if owner:
        return f"{name} is a partition of {owner}, whose name its requests have"
    return f"there is no disk {name}{closest(name, there)}"


_REASONS: dict[str, Callable[[Any], str]] = {
    "process": _process,
    "thread": _thread,
    "processor": _processor,
    "disk": _disk,
}


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
        if os.readlink("/proc/self") == str(os.getpid()):
            lines = _text(f"/proc/{task}/status").splitlines()
            return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {}


def _is_zombie(status: dict[str, str]) -> bool:
    return status.get("State", "").startswith(("Z", "X"))


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
