"""Files that tools write: whole, or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from pyebpf.errors import InvalidValue

_MAX_LINKS = 40  # as many as the kernel follows (MAXSYMLINKS)
#: Reasons that no file can be put in another's place, although the other may be written.
_NO_NEIGHBOUR = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})


def write_file(path: str, content: str | bytes) -> None:
    """Write a file, of text as UTF-8. What was there stays if that fails: of a full disk, say. Raises OSError.

    It is written beside the old one, and takes its place, its mode and its owner; links to it stay. What is no regular
    file (/dev/stdout, a FIFO, a device) is written to, and so is a file that cannot be replaced: another user's, one in
    a folder where none can be made, a mount point. A FIFO that nobody reads is an error (ENXIO). PermissionError for
    another user's link, and for his file in a folder that everybody can write to, such as /tmp, as Linux has it with
    fs.protected_regular.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    place = _followed(Path(path))
    if place is None or not _replaced(place, data):
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        with os.fdopen(number, "wb") as file:
            os.set_blocking(number, True)
            file.write(data)


def check_owners(path: str) -> None:
    """Raise PermissionError for a file that `write_file` does not write, since of whose it is, or a link to it."""
    _followed(Path(path))


def _followed(path: Path) -> Path | None:
    """The file that links lead to; None for what is no regular file, or is reached by a process's descriptor."""
    for _ in range(_MAX_LINKS):
        try:
            status = path.lstat()
        except FileNotFoundError:
            return path
        _check_owner(path, status)
        if not stat.S_ISLNK(status.st_mode):
            return path if stat.S_ISREG(status.st_mode) else None
        folder = path.parent.resolve()
        if folder.is_relative_to("/proc"):  # /dev/stdout: what the shell opened is to have it, whatever its name
            return None
        path = folder / path.readlink()
    return None  # too many: opening it says so


def _check_owner(path: Path, status: os.stat_result) -> None:
    """Raise PermissionError for another user's link, but root's, and for his file in a shared folder of others."""
    if stat.S_ISLNK(status.st_mode) and status.st_uid not in (os.geteuid(), 0):
        raise PermissionError(errno.EACCES, f"{path} is another user's link", str(path))
    folder = path.parent.stat()
    is_shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if is_shared and status.st_uid not in (os.geteuid(), folder.st_uid) and not stat.S_ISCHR(status.st_mode):
        raise PermissionError(
            errno.EACCES, f"{path} is another user's file, in a folder that everybody can write to", str(path)
        )


def _replaced(place: Path, data: bytes) -> bool:
    """Put a new file in the place of a regular one, or of none; False where only the old one can be written."""
    beside = place.with_name(f".{os.urandom(8).hex()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        number = os.open(beside, flags, 0o666)
    except OSError as error:
        if error.errno in _NO_NEIGHBOUR:
            return False
        raise
    try:
        with os.fdopen(number, "wb") as file:
            with suppress(FileNotFoundError):
                _like(number, place.stat())
            file.write(data)
        beside.replace(place)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.errno in _NO_NEIGHBOUR:
            return False
        raise
    return True


def _like(number: int, old: os.stat_result) -> None:
    """Give a file the owner and mode of another. Raises PermissionError for the owner, if that is another user."""
    new = os.fstat(number)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(number, old.st_uid, old.st_gid)
    os.fchmod(number, stat.S_IMODE(old.st_mode))


def check_writable(path: str) -> None:
    """Raise InvalidValue if a file cannot be written: before minutes of tracing, not after."""
    try:
        check_owners(path)  # first: with fs.protected_symlinks is_dir() below raises PermissionError at such a link
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {error.strerror}") from error
    place = Path(path)
    if place.is_dir():
        raise InvalidValue(f"{path} cannot be written: it is a directory")
    if not place.parent.is_dir():
        raise InvalidValue(f"{path} cannot be written: there is no directory {place.parent}")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise InvalidValue(f"{path} cannot be written by this user")
