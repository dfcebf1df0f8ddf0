"""What a process lacks (descriptors, memory, threads) is not reported as something that the kernel lacks."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from pyebpf.errors import KernelError, NotSupported
from pyebpf.features import netlink
from pyebpf.features.support import Support
from pyebpf.kernel import interfaces, mounts, namespaces, privileges, tracefs
from pyebpf.kernel.shortages import SHORTAGES
from pyebpf.runtime import processes
from pyebpf.symbols.kernel import KernelSymbols
from pyebpf.uapi.errnos import errno_name
from tests.support.needs import needs


@contextmanager
def no_descriptors(left=0):
    """So many descriptors may still be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.dup(2) for _ in range(8)]
    for descriptor in held:
        os.close(descriptor)
    free = min(held)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("left", range(4))
def test_tracefs_without_descriptors(left):
    """EMFILE is told as that, at whichever file: it does not say that CONFIG_TRACING is missing."""
    needs("user:root")
    found = None
    errno_name(0)  # its table is a file
    with no_descriptors(left):
        try:
            tracefs.Tracefs().close()
        except KernelError as error:
            found = error
    if left == 0 or found is not None:
        assert not isinstance(found, NotSupported)
        assert found.errno == errno.EMFILE
        assert str(found).endswith("raise the limit: ulimit -n, or fs.file-max of the whole machine (EMFILE)")


@pytest.mark.parametrize("number", sorted(SHORTAGES))
def test_tracefs_that_cannot_be_mounted_now(monkeypatch, number):
    """Nor do the others."""

    def fail(kind):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tracefs, "_mounted", lambda: None)
    monkeypatch.setattr(tracefs, "private_mount", fail)
    with pytest.raises(KernelError) as caught:
        tracefs.Tracefs()
    assert not isinstance(caught.value, NotSupported)
    assert str(caught.value).startswith(f"opening tracefs failed: {os.strerror(number)}")


@pytest.mark.parametrize(
    "ask",
    [
        mounts.mount_points,
        privileges.effective_capabilities,
        lambda: interfaces.interface_index("lo"),
    ],
    ids=["mounts", "capabilities", "index"],
)
def test_what_cannot_be_read_is_not_taken_for_nothing(ask):
    """No mounts, no capabilities, no such interface: each would be told as a reason."""
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        ask()


def test_the_kernels_symbols():
    """They are there: it is the file that cannot be opened."""
    with no_descriptors():
        hidden = KernelSymbols().hidden
    assert hidden == "/proc/kallsyms cannot be read: Too many open files, raise the limit"


def refuse(self):
    raise RuntimeError("can't start new thread")


def test_threads_that_cannot_be_started(monkeypatch):
    """Memory or the number of threads is short, and said so; a feature is unknown, not missing."""
    monkeypatch.setattr(Thread, "start", refuse)
    with pytest.raises(KernelError, match=r"^a thread cannot be started: raise the limit of memory \(ulimit -v"):
        namespaces.in_network_namespace(-1, lambda: None)
    assert netlink.clsact(None) is Support.UNKNOWN


def test_a_watch_that_cannot_be_started_leaves_nothing_open(monkeypatch):
    """Neither its pipe nor its ring buffer."""
    closed = []

    class Ring:
        def __init__(self, *_):
            pass

        def fileno(self):
            return 2

        def close(self):
            closed.append(self)

    monkeypatch.setattr("pyebpf.events.RingBuffer", Ring)
    monkeypatch.setattr(Thread, "start", refuse)
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(KernelError, match="a thread cannot be started"):
        processes.ProcessWatch(None, None)
    assert set(Path("/proc/self/fd").iterdir()) == before
    assert len(closed) == 1


@pytest.mark.parametrize(
    ("tool", "descriptors"),
    [*(("opensnoop", number) for number in range(5, 16)), *(("profile", number) for number in range(12, 22))],
)
def test_a_tool_without_descriptors(tool, descriptors):
    """Each limit ends it with one line that names the limit, in whatever thread it is met; profile takes 18."""
    needs("user:root")
    done = subprocess.run(
        [sys.executable, "-m", "pyebpf", tool, "-d", "0.1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)),
    )
    assert "Traceback" not in done.stderr
    if tool == "profile" and descriptors > 18 and not done.returncode:
        return
    assert done.returncode
    assert "oo many open files" in done.stderr
    assert "ulimit -n" in done.stderr
    assert "CONFIG" not in done.stderr
