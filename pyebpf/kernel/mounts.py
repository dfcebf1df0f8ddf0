"""File systems of the kernel's own: where they are mounted, or mounts without a mount point, that nobody else sees."""

from __future__ import annotations

import os

from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.shortages import raise_shortage
from pyebpf.kernel.syscall import address_of, syscall

# fsconfig(2), fsopen(2), fsmount(2): include/uapi/linux/mount.h
_FSOPEN_CLOEXEC, _FSMOUNT_CLOEXEC = 1, 1
_FSCONFIG_CMD_CREATE = 6


def mount_points() -> list[tuple[str, str]]:
    """Type and place of every mount that this process sees, in the order of mounting; none if /proc is not there."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            lines = mounts.read().splitlines()
    except OSError as error:
        raise_shortage(error)
        return []
    fields = (line.split(" ") for line in lines)
    return [(each[2], _unescaped(each[1])) for each in fields if len(each) > 2]


def cgroup2_mounts() -> list[str]:
    """Directories at which a file system of control groups (v2) is mounted."""
    return [place for kind, place in mount_points() if kind == "cgroup2"]


def _unescaped(path: str) -> str:
    """A mount point as it is: blanks and backslashes stand as three octal digits (proc(5))."""
    first, *rest = path.split("\\")
    return first + "".join(chr(int(each[:3], 8)) + each[3:] for each in rest)


def private_mount(kind: str) -> Descriptor:
    """The root of a new mount of a file system ("tracefs"). It goes away with its last descriptor. Raises OSError."""
    name = bytearray(kind.encode() + b"\0")
    with Descriptor(syscall("fsopen", address_of(name), _FSOPEN_CLOEXEC), f"{kind} context") as context:
        syscall("fsconfig", context.fileno(), _FSCONFIG_CMD_CREATE, 0, 0, 0)
        return Descriptor(syscall("fsmount", context.fileno(), _FSMOUNT_CLOEXEC, 0), f"{kind} mount")


def securityfs_file(name: str) -> str | None:
    """The text of a file of securityfs ("lockdown"), mounted or not; None if it cannot be read."""
    try:
        with open(f"/sys/kernel/security/{name}", encoding="ascii") as file:
            return file.read()
    except OSError:
        pass
    try:
        with private_mount("securityfs") as root:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root.fileno())
            with Descriptor(fd, name), os.fdopen(fd, encoding="ascii", closefd=False) as file:
                return file.read()
    except OSError:
        return None
