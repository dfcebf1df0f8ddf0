"""A root file system for guests of another architecture: Debian's packages, unpacked, with what the tests need.

Nothing of it runs on this machine: packages are unpacked without their installation scripts, and Python's own are
wheels for the guest. What is in it stays as it is; a guest writes to an overlay.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm.kernels import KernelUnavailable, fetch_packages

if TYPE_CHECKING:
    from tests.vm.platforms import Platform

SUITE = "bookworm"
PYTHON = "python3.11"  # SUITE's
PACKAGES = (
    *("bash", "binutils", "busybox-static", "coreutils", "dash", "diffutils", "e2fsprogs", "findutils"),
    *("gawk", "gcc", "grep", "hostname", "iproute2", "iputils-ping", "iw", "kmod"),
    *("libc-bin", "libc6-dev", "mount", "netbase", "procps", "python3", "sed", "systemtap-sdt-dev"),
    *("tar", "util-linux"),
)
WHEELS = ("construct", "hypothesis", "pyelftools", "pyroute2", "pytest")
"""What the package and its tests import, in the versions that this interpreter has."""

_MACHINES = {"arm64": "aarch64"}
_FILES = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\ndaemon:x:1:\ntty:x:5:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost pyebpf-vm\n::1 localhost\n",
    "nsswitch.conf": "".join(f"{name}: files\n" for name in ("passwd", "group", "hosts", "protocols", "services")),
}
_FOLDERS = ("dev", "proc", "sys", "run", "tmp", "root", "var/tmp", "host", "lib/modules")
_LINKS = {"usr/bin/sh": "dash", "usr/bin/awk": "gawk", "etc/mtab": "/proc/mounts"}


def obtain(target: Platform, cache: Path) -> Path:
    """The root for a platform's guests, made if `cache` has none of these packages. Raises KernelUnavailable."""
    folder = cache / f"root-{SUITE}-{target.name}"
    wanted = "\n".join([*PACKAGES, *_requirements()])
    mark = folder / "contents"
    if mark.exists() and mark.read_text() == wanted:
        return folder
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as scratch:
        made = Path(scratch, "root")
        _unpack(target, cache, made)
        _add_wheels(target, made)
        _compile(made)
        (made / "contents").write_text(wanted)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    return folder


def _unpack(target: Platform, cache: Path, root: Path) -> None:
    for name in ("bin", "sbin", "lib"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as scratch:
        for archive in fetch_packages(SUITE, target.name, PACKAGES, cache, Path(scratch)):
            # `dpkg -x` would replace the links above by folders.
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as tar:
                _run("tar", "-x", "--keep-directory-symlink", "-C", str(root), stdin=tar.stdout)
    for name in ("doc", "man", "locale", "info"):
        shutil.rmtree(root / "usr" / "share" / name, ignore_errors=True)
    for name, content in _FILES.items():
        (root / "etc" / name).write_text(content)
    for name, content in _LINKS.items():  # which installation scripts make
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(content)


def _requirements() -> list[str]:
    return [f"{name}=={metadata.version(name)}" for name in WHEELS]


def _add_wheels(target: Platform, root: Path) -> None:
    machine = _MACHINES[target.name]
    places = root / "usr" / "local" / "lib" / PYTHON / "dist-packages"
    _run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"),
        *("--target", str(places), "--python-version", PYTHON.removeprefix("python"), "--only-binary", ":all:"),
        *("--platform", f"manylinux2014_{machine}", "--platform", f"manylinux_2_17_{machine}", *_requirements()),
    )


def _compile(root: Path) -> None:
    """Leave bytecode, as Debian does when Python is installed: each start takes seconds less in emulation."""
    found = shutil.which(PYTHON) or (
        sys.executable if PYTHON.endswith(".".join(platform.python_version_tuple()[:2])) else ""
    )
    if not found:
        return
    for folder in (root / "usr" / "lib" / PYTHON, root / "usr" / "local" / "lib" / PYTHON):
        subprocess.run(
            [found, "-m", "compileall", "-q", "-s", str(root), str(folder)],
            env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            stdout=subprocess.DEVNULL,
            check=False,
        )


def _run(*command: str, stdin: object = subprocess.DEVNULL) -> None:
    run = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)  # type: ignore[call-overload] # a file
    if run.returncode:
        raise KernelUnavailable(f"`{' '.join(command[:4])} …` failed: {run.stderr.strip()[-500:]}")
