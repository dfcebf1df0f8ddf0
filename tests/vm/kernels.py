"""Debian's kernel packages: found and fetched with apt, unpacked into a cache folder, never installed.

The kernels come from suites that the machine need not list: apt runs with configuration and lists of its own, over the
mirror that the machine uses for Debian.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUITES = {
    "5.10": "bullseye",
    "6.1": "bookworm",
    "6.12": "trixie",
    "6.18": "trixie-backports",
    "7.3": "trixie-backports",
}
"""Where Debian has each series."""
FLAVOURED = ("6.1", "6.12")  # series whose flavours are machines, too
FLAVOURS = ("", "rt", "cloud")
ARM64 = ("6.1", "6.12", "6.18", "7.3")
ARM64_16K = ("6.12",)  # with pages of 16 KiB

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"  # of the package debian-archive-keyring
_FRESH = 24 * 3600  # seconds for which a suite's lists serve

# What a suite's apt has for itself; the rest is the machine's: proxies, and how to fetch.
_CONFIGURATION = """\
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache::archives "{folder}/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "root";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


class KernelUnavailable(Exception):
    """No package of the series wanted, neither offered by apt nor unpacked already."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked package: `boot/vmlinuz-RELEASE` and `lib/modules/RELEASE` in `folder`, with `modules.dep`."""

    release: str
    folder: Path

    @property
    def image(self) -> Path:
        """What boots: a bzImage, or arm64's Image."""
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


def obtain(series: str, cache: Path, *, flavour: str = "", architecture: str = "amd64") -> Kernel:
    """The newest kernel of `series` ("6.1", "6.12") that its suite offers, else the newest in `cache`.

    Raises KernelUnavailable if there is none.
    """
    cache.mkdir(parents=True, exist_ok=True)
    suite = _Suite(SUITES[series], architecture, cache)
    pattern = _pattern(series, flavour, architecture)
    trouble = ""
    try:
        releases = suite.releases(series)
    except KernelUnavailable as error:
        releases, trouble = [], f": {error}"
    release = _newest(releases, pattern) or _newest([path.name for path in cache.iterdir()], pattern)
    if release is None:
        raise KernelUnavailable(
            f"no kernel {series}{flavour and '-'}{flavour} for {architecture} in Debian's {suite.name}{trouble}; "
            f"an unpacked package in {cache} serves as well"
        )
    folder = cache / release
    if not folder.exists():
        suite.fetch(release, folder)
    return Kernel(release, folder)


def fetch_packages(suite: str, architecture: str, names: Sequence[str], cache: Path, into: Path) -> list[Path]:
    """The archives of some packages and of all that they depend on, fetched to `into`. Raises KernelUnavailable."""
    cache.mkdir(parents=True, exist_ok=True)
    _Suite(suite, architecture, cache).download(names, into)
    return sorted(into.glob("*.deb"))


def _pattern(series: str, flavour: str, architecture: str) -> re.Pattern[str]:
    # 6.1.0-N in a release of Debian, since 6.10 6.12.N+debN; 16k, pages of that size, stands behind "arm64".
    ending = f"{architecture}-16k" if flavour == "16k" else f"{flavour}{flavour and '-'}{architecture}"
    return re.compile(rf"{re.escape(series)}\.(0-\d+|\d+\+deb\d+)-{ending}")


def _newest(releases: list[str], pattern: re.Pattern[str]) -> str | None:
    return max(
        (release for release in releases if pattern.fullmatch(release)),
        key=lambda release: [int(n) for n in re.findall(r"\d+", release)],
        default=None,
    )


class _Suite:
    """A suite of Debian's for one architecture, as apt sees it with a folder of its own in the cache."""

    def __init__(self, name: str, architecture: str, cache: Path) -> None:
        self.name = name
        self._architecture = architecture
        self._folder = cache / f"apt-{name}-{architecture}"

    def releases(self, series: str) -> list[str]:
        """The releases of a series, of all flavours, by the names of their packages."""
        self._update()
        # This pattern only narrows: "-dbg" and "-unsigned" packages match too.
        return [name.removeprefix("linux-image-") for name in self._named(f"^linux-image-{re.escape(series)}[.]")]

    def fetch(self, release: str, folder: Path) -> None:
        """Unpack a kernel's packages into `folder`: one, or since 7.x three, with the modules and the image apart."""
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
            packages = self._named(f"^linux-(image|base|binary|modules)-{re.escape(release)}$")
            self._apt("apt-get", "download", "-q", *packages, cwd=Path(scratch))
            unpacked = Path(scratch) / "unpacked"
            for archive in Path(scratch).glob("*.deb"):
                _output("dpkg", "-x", str(archive), str(unpacked))
            if not (unpacked / "lib").exists():
                (unpacked / "lib").symlink_to("usr/lib")
            image = unpacked / "boot" / f"vmlinuz-{release}"
            if not image.exists():
                image.parent.mkdir(exist_ok=True)
                (unpacked / "lib" / "modules" / release / "vmlinuz").rename(image)
            unpack_image(image)
            _output("depmod", "-b", str(unpacked), release)  # packages leave this to their installation script
            try:
                unpacked.rename(folder)
            except OSError:  # another run was quicker, which is as good
                if not folder.exists():
                    raise

    def download(self, names: Sequence[str], into: Path) -> None:
        """Fetch packages with what they depend on, as if nothing were installed."""
        self._update()
        (into / "partial").mkdir()
        options = ("-o", f"Dir::Cache::archives={into}", "-o", "APT::Install-Recommends=false")
        self._apt("apt-get", "install", "-q", "-y", "--download-only", *options, *names)

    def _named(self, pattern: str) -> list[str]:
        listing = self._apt("apt-cache", "search", "--names-only", pattern)
        return [line.split()[0] for line in listing.splitlines() if line.strip()]

    def _update(self) -> None:
        """Fetch the lists, unless those that are here are young; old ones serve if that fails."""
        for part in ("lists/partial", "archives/partial"):
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        with _locked(self._folder / "lock"):
            done = self._folder / "updated"
            if done.exists() and time.time() - done.stat().st_mtime < _FRESH:
                return
            (self._folder / "status").touch()
            (self._folder / "apt.conf").write_text(
                _CONFIGURATION.format(folder=self._folder, architecture=self._architecture)
            )
            (self._folder / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {_mirror()} {self.name} main\n")
            try:
                self._apt("apt-get", "update", "-q")
            except KernelUnavailable:
                if not done.exists():
                    raise
            else:
                done.touch()

    def _apt(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        return _output(program, "-c", str(self._folder / "apt.conf"), *arguments, cwd=cwd)


def unpack_image(image: Path) -> None:
    """Put what boots in the place of an image that unpacks itself under EFI, which QEMU before 8.0 does not load.

    drivers/firmware/efi/libstub/zboot-header.S: "MZ", "zimg" at 4, offset and size of what is packed, then how it is.
    """
    with image.open("rb") as file:
        header = file.read(64)
        if header[4:8] != b"zimg":
            return
        offset, size = struct.unpack_from("<II", header, 8)
        how = header[24:56].partition(b"\0")[0].decode()
        file.seek(offset)
        packed = file.read(size)
    # Four bytes behind may tell the size: programs take them for garbage, and unpack all the same.
    program = {"gzip": "gzip", "zstd": "zstd", "zstd22": "zstd", "xz": "xz", "xzkern": "xz", "lzma": "lzma"}.get(
        how, how
    )
    if shutil.which(program) is None:
        raise KernelUnavailable(f"`{program}` is not installed")
    run = subprocess.run([program, "-dc"], input=packed, capture_output=True, check=False)
    if not run.stdout:
        raise KernelUnavailable(f"{image.name} is packed by {how}: {run.stderr.decode(errors='replace').strip()}")
    image.write_bytes(run.stdout)


def _mirror() -> str:
    """The address of Debian's archive in the machine's configuration of apt."""
    listing = _output("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages")
    sources = [line.rpartition(" ")[::2] for line in listing.splitlines()]
    # The label is known once the machine has fetched lists; before, the address's last part must do.
    for label, address in sources:
        if label == "Debian" or (label != "Debian-Security" and address.rstrip("/").endswith("/debian")):
            return address
    raise KernelUnavailable("apt is configured for no archive of Debian's")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
