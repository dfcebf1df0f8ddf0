"""Files that tools write: whole, or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from pyebpf.errors import InvalidValue
from pyebpf.written_files import Destination, reached

#: Reasons that no file can be put in another's place, although the other may be written.
_NO_NEIGHBOUR = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})


def write_file(path: str, content: str | bytes) -> None:
    """Write a file, of text as UTF-8. What was there stays if that fails: of a full disk, say. Raises OSError.

    It is written beside the old one, and takes its place, its mode and its owner; links to it stay. What is no regular
    file (/dev/stdout, a FIFO, a device) is written to, and so is a file that cannot be replaced: another user's, one in
    a folder where none can be made, a mount point. A FIFO that nobody reads is an error (ENXIO). PermissionError for
    what `reached` does not let another user choose.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    with reached(path) as place:
        if not place.is_regular or not _replaced(place, data):
            with os.fdopen(place.open(), "wb") as file:
                file.write(data)


def _replaced(place: Destination, data: bytes) -> bool:
    """Put a new file in the place of a regular one, or of none; False where only the old one can be written."""
    beside = f".{os.urandom(8).hex()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        number = os.open(beside, flags, 0o666, dir_fd=place.folder)
    except OSError as error:
        if error.errno in _NO_NEIGHBOUR:
            return False
        raise
    try:
        with os.fdopen(number, "wb") as file:
            if place.status is not None:
                _like(number, place.status)
            file.write(data)
        os.replace(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(beside, dir_fd=place.folder)
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
        with reached(path):  # first: with fs.protected_symlinks is_dir() below raises PermissionError at such a link
            pass
    except (FileNotFoundError, NotADirectoryError):
        pass  # said below
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {error.strerror}") from error
    place = Path(path)
    if place.is_dir():
        raise InvalidValue(f"{path} cannot be written: it is a directory")
    if not place.parent.is_dir():
        raise InvalidValue(f"{path} cannot be written: there is no directory {place.parent}")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise InvalidValue(f"{path} cannot be written by this user")
