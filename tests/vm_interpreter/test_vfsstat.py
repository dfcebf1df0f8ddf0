"""vfsstat where fsync(2) calls vfs_fsync_range, and where the compiler has put a copy of that into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyebpf.programs import vfsstat
from pyebpf.testing import Simulation, recorded

#: A kernel whose functions can be traced.
FACTS = Path(__file__).resolve().parents[1] / "programs/kernels/6.12.json"
EBADF, EIO = 9, 5


@pytest.fixture
def tool():
    """The tool's tracer and its simulation."""
    bpf = vfsstat.build(vfsstat.Options())
    with Simulation(bpf, recorded(FACTS)) as kernel:
        yield bpf, kernel


def sync(kernel, call, *, calls_function=True, ret=0):
    """Run a system call, with or without the function."""
    kernel.tracepoint(f"syscalls:sys_enter_{call}", fd=3)
    if calls_function:
        kernel.function("vfs_fsync_range")
    kernel.tracepoint(f"syscalls:sys_exit_{call}", ret=ret)


def counted(bpf):
    """Calls of the interval."""
    return dict(bpf["calls"].interval()).get(vfsstat.FSYNC, 0)


@pytest.mark.parametrize("inlined", [False, True])
def test_each_call_counts_once(tool, inlined):
    """Five of one and three of the other, also those that fail; a file that is none does not count."""
    bpf, kernel = tool
    for _ in range(5):
        sync(kernel, "fsync", calls_function=not inlined)
    for _ in range(3):
        sync(kernel, "fdatasync", calls_function=not inlined, ret=-EIO)
    sync(kernel, "fsync", calls_function=False, ret=-EBADF)
    assert counted(bpf) == 8


def test_other_ways_to_the_function(tool):
    """A write to a file that is opened so, before and after a call in which nothing is seen."""
    bpf, kernel = tool
    kernel.function("vfs_fsync_range")
    sync(kernel, "fsync", calls_function=False)
    kernel.function("vfs_fsync_range")
    assert counted(bpf) == 3
