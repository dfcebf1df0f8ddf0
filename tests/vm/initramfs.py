"""The initial file system: busybox, the modules for the root file system, and what the machine is to do.

The guest's root is the host's, read-only over 9p or virtiofs, under an overlay whose writes stay in the guest's memory.
"""

from __future__ import annotations

import lzma
import shlex
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.vm.kernels import Kernel
    from tests.vm.platforms import Platform


@dataclass(frozen=True, slots=True)
class Share:
    """A file system that the host shares: modules in order of insertion (built-in ones are skipped), mount options."""

    modules: tuple[str, ...]
    root: str
    results: str


SHARES = {
    "9p": Share(
        ("virtio_pci", "9pnet_virtio", "9p", "overlay"),
        "-t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000",
        "-t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=512000",
    ),
    # For kernels without 9p, as Debian's "cloud" ones are. How much is cached, its daemon on the host decides.
    "virtiofs": Share(("virtio_pci", "virtiofs", "overlay"), "-t virtiofs -o ro", "-t virtiofs"),
}

# Where the guest finds the writable share for results.
RESULTS = "/run/results"

# Where a guest with a root of its own finds this machine's.
HOST = "/host"

# Directories that get a file system of the guest's own, and so hide what the host has there.
HIDDEN = ("/proc", "/sys", "/dev", "/run")

_INIT = """\
#!/bin/busybox sh
set -e
bb=/bin/busybox
$bb mount -t devtmpfs none /dev
$bb mount -t proc none /proc
for module in /modules/*; do $bb insmod $module; done
$bb mount {options} root /lower
$bb mount -t tmpfs -o size=75% none /upper
$bb mkdir /upper/data /upper/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work none /newroot
$bb mount -t tmpfs none /newroot/run
{host}$bb mkdir /newroot/run/vm
$bb cp $bb /start /command /newroot/run/vm/
$bb umount /proc
$bb umount /dev
exec $bb switch_root /newroot /run/vm/busybox sh /run/vm/start
"""

# Second stage, inside the final root. The last line is reached whatever the command does.
_START = """\
bb=/run/vm/busybox
$bb mount -t proc none /proc
$bb mount -t sysfs none /sys
$bb mount -t devtmpfs none /dev
$bb mkdir -p /dev/pts /dev/shm {results} /lib/modules
$bb mount -t devpts none /dev/pts
$bb mount -t tmpfs none /dev/shm
$bb mount -t cgroup2 none /sys/fs/cgroup
$bb mount {options} results {results}
{folders}$bb mount -o bind {modules_folder} /lib/modules
$bb ip link set lo up
$bb hostname pyebpf-vm
$bb stty -F /dev/{output} {terminal}
$bb stty -F /dev/{status} raw
ulimit -Hn 524288
for module in {modules}; do
    PATH=/usr/sbin:/sbin:/usr/bin:/bin modprobe $module || $bb echo "module $module: not loaded"
done >/dev/{output} 2>&1
# The host's shell: busybox's would prefer its own applets to the programs of the environment's PATH.
{session}
$bb echo "status $?" >/dev/{status}
$bb sync
$bb umount {results}
$bb poweroff -f
"""

# How the command is run, by whether somebody sits at the terminal; and how the terminal is set.
_SESSIONS = {
    False: "/bin/sh /run/vm/command </dev/null >/dev/{output} 2>&1",
    True: "$bb setsid -c /bin/sh /run/vm/command </dev/{output} >/dev/{output} 2>&1",
}
_TERMINALS = {False: "raw", True: "sane"}

# In a guest with a root of its own: this machine's is at HOST, and some folders are at their own paths, too, each under
# an overlay.
_HOST_MOUNT = "$bb mkdir -p /newroot{host}\n$bb mount {options} host /newroot{host}\n"
_FOLDER = """\
$bb mkdir -p {folder} /run/over/{number}/data /run/over/{number}/work
over=upperdir=/run/over/{number}/data,workdir=/run/over/{number}/work
$bb mount -t overlay -o lowerdir={host}{folder},$over none {folder}
"""
_LIBRARIES = "PATH=/usr/sbin:/sbin:/usr/bin:/bin ldconfig\n"  # finds those that were unpacked without its help

_COMMAND = """\
cd {folder} && exec env -i {environment} {command}
"""


@dataclass(frozen=True, slots=True)
class Task:
    """What the guest does: load modules, then run one command in `folder` with exactly this environment."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    modules: Sequence[str] = ()
    interactive: bool = False


def build(kernel: Kernel, task: Task, share: Share, platform: Platform, root: Path | None = None) -> bytes:
    """A cpio archive for QEMU's `-initrd`; `root` is the guest's own, if it has one, which then has the busybox.

    Raises FileNotFoundError without a static busybox on the host.
    """
    found = shutil.which("busybox") if root is None else str(root / "bin" / "busybox")
    if found is None:
        raise FileNotFoundError("busybox is not installed (Debian: busybox-static)")
    shared = [] if root is None else [task.folder]
    start = _START.format(
        results=RESULTS,
        folders="".join(
            _FOLDER.format(folder=shlex.quote(str(folder)), number=number, host=HOST)
            for number, folder in enumerate(shared)
        )
        + (_LIBRARIES if shared else ""),
        modules_folder=shlex.quote(f"{'' if root is None else HOST}{kernel.folder / 'lib' / 'modules'}"),
        modules=" ".join(map(shlex.quote, task.modules)),
        options=share.results,
        output=platform.output,
        status=platform.status,
        session=_SESSIONS[task.interactive].format(output=platform.output),
        terminal=_TERMINALS[task.interactive],
    )
    host = "" if root is None else _HOST_MOUNT.format(options=share.root, host=HOST)
    command = _COMMAND.format(
        folder=shlex.quote(str(task.folder)),
        environment=" ".join(shlex.quote(f"{name}={value}") for name, value in task.environment.items()),
        command=shlex.join(task.command),
    )
    archive = Archive()
    for directory in ("bin", "dev", "proc", "modules", "lower", "upper", "newroot"):
        archive.directory(directory)
    archive.device("dev/console", 5, 1)  # the kernel gives it to init as its three descriptors
    archive.file("bin/busybox", Path(found).read_bytes())
    archive.file("init", _INIT.format(options=share.root, host=host).encode())
    archive.file("start", start.encode())
    archive.file("command", command.encode())
    for number, path in enumerate(kernel.files_for_modules(share.modules)):
        archive.file(f"modules/{number:02}-{path.name.removesuffix('.xz')}", _module(path))
    return archive.finish()


def _module(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


class Archive:
    """A cpio archive in the "newc" form (Linux, driver-api/early-userspace/buffer-format)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._inode = 0

    def directory(self, name: str) -> None:
        """An empty directory."""
        self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name: str, content: bytes) -> None:
        """A file; all are executable, which harms none."""
        self._add(name, stat.S_IFREG | 0o755, content)

    def device(self, name: str, major: int, minor: int) -> None:
        """A character device."""
        self._add(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def finish(self) -> bytes:
        """The whole archive, with its end mark."""
        self._add("TRAILER!!!", 0)
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, content: bytes = b"", *, device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        path = name.encode() + b"\0"
        # ino, mode, uid, gid, nlink, mtime, filesize, dev major and minor, rdev major and minor, namesize, check
        numbers = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
        header = b"070701" + b"".join(b"%08X" % number for number in numbers)
        for part in (header + path, content):
            self._parts.append(part + bytes(-len(part) % 4))
