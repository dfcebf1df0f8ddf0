"""A control group whose processes may have little memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.kernel.mounts import cgroup2_mounts
from tests.support.needs import unless
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


class MemoryGroup:
    """A group of either version, at `path`."""

    def __init__(self, path: Path, *, second: bool) -> None:
        self.path = path
        self.second = second

    def limit(self, size: int) -> None:
        """Let its processes have `size` bytes."""
        (self.path / ("memory.max" if self.second else "memory.limit_in_bytes")).write_text(str(size))

    def oom_kills(self) -> int:
        """The number of kills, by the group's own account."""
        name = "memory.events" if self.second else "memory.oom_control"
        counts = dict(line.split() for line in (self.path / name).read_text().splitlines())
        return int(counts["oom_kill"])

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Run a Python script in the group."""
        enter = f'echo $$ > {self.path}/cgroup.procs && exec "$0" -c "$1"'
        return subprocess.Popen(["sh", "-c", enter, sys.executable, script])


@contextlib.contextmanager
def memory_group() -> Iterator[MemoryGroup]:
    """A new group with a memory controller, removed afterwards; skips where no hierarchy has one."""
    first = Path("/sys/fs/cgroup/memory")
    mounts = [Path(each) for each in cgroup2_mounts()]
    second = next((each for each in mounts if "memory" in (each / "cgroup.controllers").read_text().split()), None)
    unless(second is not None or (first / "memory.limit_in_bytes").exists(), "cgroup:memory")
    base = first if second is None else second
    control = base / "cgroup.subtree_control"
    enabled = second is None or "memory" in control.read_text().split()
    if not enabled:
        control.write_text("+memory")
    path = base / f"pyebpf-memory-{os.getpid()}"
    path.mkdir()
    try:
        yield MemoryGroup(path, second=second is not None)
    finally:
        wait_until(lambda: not (path / "cgroup.procs").read_text())
        path.rmdir()
        if not enabled:
            control.write_text("-memory")
