"""What a stripped-down container or Python lacks is one line that names the remedy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.needs import needs
from tests.support.python import ROOT
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.any_kernel


@pytest.mark.parametrize("tool", ["opensnoop", "profile", "doctor"])
@pytest.mark.parametrize(("place", "kind"), [("/proc", "proc"), ("/sys", "sysfs")])
@pytest.mark.parametrize("instead", ["umount -l {}", "mount -t tmpfs none {}"], ids=["nothing", "tmpfs"])
def test_without_a_file_system_of_the_kernels(tool, place, kind, instead):
    """The line says that it is not mounted, and how it is; also where another file system is in its place."""
    needs("user:root", "command:unshare")
    # What is mounted below stays reachable by nobody: the folder is empty, and no mount point.
    script = f"mount --make-rprivate /; {instead.format(place)}; exec {sys.executable} -m pyebpf {tool}"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"pyebpf {tool}: {place} is not mounted, so there is no {place}/")
    assert line.endswith(f": mount -t {kind} {kind} {place}")


def test_without_ctypes(tmp_path):
    """A Python that was built without libffi."""
    (tmp_path / "_ctypes.py").write_text("raise ImportError(\"No module named '_ctypes'\")\n")
    done = subprocess.run(
        [sys.executable, "-m", "pyebpf", "opensnoop"],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "pyebpf opensnoop: this Python has no ctypes (No module named '_ctypes'): use one that was built with libffi, "
        "such as the distribution's own\n"
    )
