"""Where a path leads that is to be written: past no link, and to no file, by which another user chooses what it is.

Linux keeps to the same with fs.protected_symlinks and fs.protected_regular, which some machines have off, and which
say nothing of links in a folder of their owner's.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LINKS = 40  # as many as the kernel follows (MAXSYMLINKS)
_ANY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Destination:
    """A name in an open folder. `status` is that of what is there, None of nothing; links of /proc are not followed."""

    folder: int
    name: str
    status: os.stat_result | None

    @property
    def is_link(self) -> bool:
        """Whether it is a link of /proc: what a process has open, whatever its name."""
        return self.status is not None and stat.S_ISLNK(self.status.st_mode)

    @property
    def is_regular(self) -> bool:
        """Whether a regular file is there, or nothing."""
        return self.status is None or stat.S_ISREG(self.status.st_mode)

    def open(self) -> int:
        """A descriptor of an emptied file, a FIFO (ENXIO where nobody reads it) or a device. Raises OSError."""
        follow = 0 if self.is_link else os.O_NOFOLLOW
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC | follow
        number = os.open(self.name, flags, 0o666, dir_fd=self.folder)
        os.set_blocking(number, True)
        return number


@contextmanager
def reached(path: str) -> Iterator[Destination]:
    """The place that a path leads to, good until the end of the block.

    Raises PermissionError for another user's link, on the way or at its end, and for his file in a folder that
    everybody can write to. Root's links are trusted, and for root those of the user who called sudo. Raises OSError
    where no way leads.
    """
    place = _walk(path)
    try:
        yield place
    finally:
        os.close(place.folder)


def open_to_write(path: str) -> int:
    """A descriptor of what a path leads to, emptied, to be written to as long as the process runs. Raises OSError."""
    with reached(path) as place:
        return place.open()


def failure(error: OSError) -> str:
    """Say why a file cannot be written."""
    return "nobody reads this FIFO" if error.errno == errno.ENXIO else error.strerror or str(error)


def _walk(path: str) -> Destination:
    shown = Path("/" if path.startswith("/") else "")
    names = _names(path)
    folder = os.open("/" if path.startswith("/") else ".", _DIRECTORY)
    links = 0
    try:
        while True:
            name = names.pop()
            try:
                found = os.open(name, _ANY, dir_fd=folder)
            except FileNotFoundError:
                if names or not name:
                    raise
                return Destination(folder, name, None)
            try:
                status = os.fstat(found)
                is_link = stat.S_ISLNK(status.st_mode)
                is_named = is_link and not _is_of_processes(folder)
                # /proc/PID/root, on the way, is no name that the process's user has given.
                if is_named or not (is_link and names):
                    _check_owner(shown / name, status, os.fstat(folder), is_last=not names)
                if is_named:
                    links += 1
                    if links > _MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    target = os.readlink("", dir_fd=found)
                    names += _names(target)
                    if target.startswith("/"):
                        shown = Path("/")
                        folder = _replaced(folder, os.open("/", _DIRECTORY))
                elif not names:
                    return Destination(folder, name, status)
                else:
                    shown /= name
                    further = os.open(name if is_link else ".", _DIRECTORY, dir_fd=folder if is_link else found)
                    folder = _replaced(folder, further)
            finally:
                os.close(found)
    except BaseException:
        os.close(folder)
        raise


def _names(path: str) -> list[str]:
    """The parts of a path, the last one first. A path that ends with a slash ends in that directory."""
    names = [each for each in path.split("/") if each]
    if path.endswith("/"):
        names.append(".")
    return names[::-1] or [path]


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new


def _is_of_processes(folder: int) -> bool:
    """Whether a folder is in /proc, whose links lead to what a process has open and not to a name."""
    try:
        return os.fstat(folder).st_dev == Path("/proc/self").stat().st_dev
    except FileNotFoundError:  # not mounted
        return False


def _check_owner(shown: Path, status: os.stat_result, folder: os.stat_result, *, is_last: bool) -> None:
    """Raise PermissionError for what another user has put there to be written to, or followed."""
    is_link, ours = stat.S_ISLNK(status.st_mode), status.st_uid in (os.geteuid(), 0, _caller())
    is_shared = bool(folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH)
    if is_link and not ours:
        raise PermissionError(errno.EACCES, f"{shown} is another user's link", str(shown))
    if not is_shared or status.st_uid in (os.geteuid(), folder.st_uid) or stat.S_ISCHR(status.st_mode):
        return
    if is_last:
        raise PermissionError(
            errno.EACCES, f"{shown} is another user's file, in a folder that everybody can write to", str(shown)
        )


def _caller() -> int | None:
    """The user who runs this by sudo, and could put the link elsewhere without it; None if nobody does."""
    uid = os.environ.get("SUDO_UID", "")
    return int(uid) if os.geteuid() == 0 and uid.isdecimal() else None
