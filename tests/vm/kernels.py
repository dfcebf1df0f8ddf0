"""Debian's kernel packages: found with apt-cache, fetched, unpacked into a cache folder, never installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SERIES = ("6.1", "6.12")
FLAVOURS = ("", "rt", "cloud")


class KernelUnavailable(Exception):
    """No package of the series wanted, neither offered by apt nor unpacked already."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked package: `boot/vmlinuz-RELEASE` and `lib/modules/RELEASE` in `folder`, with `modules.dep`."""

    release: str
    folder: Path

    @property
    def image(self) -> Path:
        """The bzImage."""
        return self.folder / "boot" / f"vmlinuz-{self.release}"

    def has_module(self, name: str) -> bool:
        """Whether there is a module of this name, built in or in a file."""
        try:
            self.files_for_modules((name,))
        except KernelUnavailable:
            return False
        return True

    def files_for_modules(self, names: tuple[str, ...]) -> list[Path]:
        """The module files to insert, in this order, for all `names`; those built in need none."""
        files: dict[Path, None] = {}
        for name in names:
            listing = _output("modprobe", "-d", str(self.folder), "-S", self.release, "--show-depends", name)
            for line in listing.splitlines():
                action, *rest = line.split()
                if action == "insmod":
                    files[Path(rest[0])] = None
        return list(files)


def default_cache() -> Path:
    """`PYEBPF_VM_CACHE`, else `pyebpf-vm` among the user's caches."""
    named = os.environ.get("PYEBPF_VM_CACHE")
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(named or f"{caches}/pyebpf-vm").expanduser().resolve()


def obtain(series: str, cache: Path, *, flavour: str = "") -> Kernel:
    """The newest kernel of `series` ("6.1", "6.12") that apt offers, else the newest in `cache`.

    Raises KernelUnavailable if there is none.
    """
    cache.mkdir(parents=True, exist_ok=True)
    offered = _newest(_offered(series, flavour))
    release = offered or _newest(
        [path.name for path in cache.iterdir() if _pattern(series, flavour).fullmatch(path.name)]
    )
    if release is None:
        raise KernelUnavailable(
            f"apt-cache lists no linux-image-{series}* package: run `apt-get update` on a Debian 12 machine, "
            f"or put an unpacked package into {cache}"
        )
    folder = cache / release
    if not folder.exists():
        _fetch(release, folder)
    return Kernel(release, folder)


def _pattern(series: str, flavour: str) -> re.Pattern[str]:
    # 6.1 is the release's own kernel, 6.1.0-N; later series come from updates and backports, 6.12.N+deb12.
    middle = f"{flavour}-" if flavour else ""
    return re.compile(rf"{re.escape(series)}\.(0-\d+|\d+\+deb\d+)-{middle}amd64")


def _offered(series: str, flavour: str) -> list[str]:
    # apt's pattern only narrows; the exact one decides, since "-dbg" and "-unsigned" packages match too.
    listing = _output("apt-cache", "search", "--names-only", f"^linux-image-{re.escape(series)}[.]")
    names = [line.split()[0].removeprefix("linux-image-") for line in listing.splitlines() if line.strip()]
    return [name for name in names if _pattern(series, flavour).fullmatch(name)]


def _newest(releases: list[str]) -> str | None:
    return max(releases, key=lambda release: [int(n) for n in re.findall(r"\d+", release)], default=None)


def _fetch(release: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        package = f"linux-image-{release}"
        # The sandbox user that apt would switch to cannot write here.
        _output("apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package, cwd=Path(scratch))
        (archive,) = Path(scratch).glob("*.deb")
        unpacked = Path(scratch) / "unpacked"
        _output("dpkg", "-x", str(archive), str(unpacked))
        _output("depmod", "-b", str(unpacked), release)  # packages leave this to their installation script
        try:
            unpacked.rename(folder)
        except OSError:  # another run was quicker, which is as good
            if not folder.exists():
                raise


def _output(program: str, *arguments: str, cwd: Path | None = None) -> str:
    sbin = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    found = shutil.which(program, path=sbin)
    if found is None:
        raise KernelUnavailable(f"`{program}` is not installed")
    run = subprocess.run(
        [found, *arguments], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise KernelUnavailable(f"`{program} {' '.join(arguments)}` failed: {run.stderr.strip()}")
    return run.stdout
