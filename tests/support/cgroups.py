"""Control groups of the test's own, and processes in them."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyebpf.kernel.mounts import cgroup2_mounts
from tests.support.needs import needs
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A control group; `path` is its directory."""

    path: Path

    def run(self, work: Callable[[], Any]) -> Any:
        """Call `work` in a child process that is in this group and return what it returns."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            self._child(work, writing)
        os.close(writing)
        data = b""
        try:
            while select.select([reading], [], [], PATIENCE)[0] and (part := os.read(reading, 65536)):
                data += part
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, 9)
            os.waitpid(child, 0)
        assert data, "the child died, or took too long"
        done, result = pickle.loads(data)
        assert done, result
        return result

    def _child(self, work: Callable[[], Any], writing: int) -> None:
        try:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))
            answer = (True, work())
        except BaseException:  # noqa: BLE001 - the parent raises it
            answer = (False, traceback.format_exc())
        with open(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)


@contextlib.contextmanager
def cgroup() -> Iterator[Cgroup]:
    """A new control group of version 2, removed afterwards."""
    mounts = cgroup2_mounts()
    needs("mount:cgroup2")
    base = Path(mounts[0])
    for old in base.glob("pyebpf-test-*"):
        if not Path(f"/proc/{old.name.rpartition('-')[2]}").exists():
            with contextlib.suppress(OSError):
                old.rmdir()
    path = base / f"pyebpf-test-{os.getpid()}"
    path.mkdir()
    try:
        yield Cgroup(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.rmdir()
