"""Small files kept between runs under $XDG_CACHE_HOME/pyebpf, found by a name of what they were made from.

Root believes what it finds there, so nobody else may have had a hand in it: no other user may be able to replace the
folder or one above it, and of an entry owner, mode, kind and size are looked at before a byte is read. An entry carries
a checksum of itself: one that is cut short, garbled or made by another version is rebuilt. Where the folder cannot be
used, everything works without it.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from pyebpf.kernel.descriptor import Descriptor

if TYPE_CHECKING:
    from collections.abc import Callable

_MAGIC = b"pyebpf-cache-4\n"
_CHECKSUM_SIZE = 32
_LARGEST = 64 << 20  # bytes; the index of a kernel's BTF has 1.5 MB
_NEW = ".new-"
_STALE = 3600  # seconds; writing takes a few milliseconds
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_folder() -> Descriptor | None:
    """The folder of entries, made with mode 0700; None if it cannot be used, or another user can change what is there.

    Every folder above must belong to root or this user, too, and be theirs to write, unless it is one as /tmp, where
    nobody can rename what is another's. Another user's home is left as it is.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is ignored.
    if not base.startswith("/"):
        base = os.path.expanduser("~/.cache")
        if base.startswith("~"):  # the user has no home
            return None
    try:
        if not _is_own(base):
            return None
        # The folder itself is no link: it is made here, and whoever puts one in its place leads elsewhere.
        parts = [*os.path.realpath(base).split("/")[1:], "pyebpf"]
        found = Descriptor(os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), "cache folder")
    except (OSError, ValueError):
        return None
    for number, part in enumerate(parts, 1):
        with found:
            try:
                found = _enter(found.fileno(), part, own=number == len(parts))
            except (OSError, ValueError):
                return None
    return found


def _is_own(path: str) -> bool:
    """Whether all folders and links that a path names are root's or this user's: a link of another leads anywhere."""
    while True:
        with suppress(FileNotFoundError):
            if os.lstat(path).st_uid not in {0, os.geteuid()}:
                return False
        if path == "/":
            return True
        path = os.path.dirname(path.rstrip("/"))


def _enter(above: int, name: str, *, own: bool) -> Descriptor:
    """A folder in another, made if it is not there. Raises PermissionError for one that others can change."""
    # No link: the path was resolved before, so this one was put there meanwhile.
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    if not own:
        flags |= os.O_PATH
    try:
        found = Descriptor(os.open(name, flags, dir_fd=above), "cache folder")
    except FileNotFoundError:
        if os.fstat(above).st_uid != os.geteuid():
            raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
        found = Descriptor(os.open(name, flags, dir_fd=above), "cache folder")
    status = os.fstat(found.fileno())
    believed = {os.geteuid()} if own else {0, os.geteuid()}
    others = status.st_mode & _OTHERS_WRITE and (own or not status.st_mode & stat.S_ISVTX)
    if status.st_uid not in believed or others:
        found.close()
        raise PermissionError(name)
    return found


def cached(kind: str, key: str, build: Callable[[], bytes]) -> bytes | memoryview:
    """The entry `key` of `kind` ("btf-index-1"), or what `build` returns, which is then kept.

    `key` tells what the entry is made from, fit for a file's name; `kind` names its format and the format's version.
    """
    folder = open_folder()
    if folder is None:
        return build()
    with folder:
        name = f"{kind}-{key}"
        kept = _read(folder.fileno(), name)
        if kept is not None:
            return kept
        made = build()
        _write(folder.fileno(), name, made)
        return made


def _sha256() -> Callable[[bytes], Any]:
    """The interpreter's own: hashlib would load OpenSSL, which takes 5 ms and 3 MiB of each start."""
    for module in ("_sha2", "_sha256"):  # of Python 3.12 and later, and of 3.11
        with suppress(ImportError):
            return cast("Callable[[bytes], Any]", import_module(module).sha256)
    from hashlib import sha256  # of an interpreter built without

    return sha256


def _checksum(name: str, data: bytes | memoryview) -> bytes:
    # The name takes part: an entry renamed to another's place is not believed.
    made = _sha256()(name.encode() + b"\0")
    made.update(data)
    return bytes(made.digest())


def _read(folder: int, name: str) -> memoryview | None:
    try:
        # Neither a link nor a FIFO without a writer holds this up or leads it elsewhere.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with Descriptor(os.open(name, flags, dir_fd=folder), name) as opened:
            status = os.fstat(opened.fileno())
            own = status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE
            if not stat.S_ISREG(status.st_mode) or not own or status.st_size > _LARGEST:
                return None
            with open(opened.fileno(), "rb", closefd=False) as file:
                content = file.read(status.st_size)
    except OSError:
        return None
    start = len(_MAGIC) + _CHECKSUM_SIZE
    if not content.startswith(_MAGIC) or len(content) < start:
        return None
    data = memoryview(content)[start:]
    return data if content[len(_MAGIC) : start] == _checksum(name, data) else None


def _write(folder: int, name: str, data: bytes) -> None:
    """Replace atomically; a full disk or a directory that vanishes only costs the next run some time."""
    temporary = f"{_NEW}{os.urandom(8).hex()}"
    try:
        _remove_stale(folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        made = Descriptor(os.open(temporary, flags, 0o600, dir_fd=folder), temporary)
        with made, open(made.fileno(), "wb", closefd=False) as file:
            file.write(_MAGIC + _checksum(name, data) + data)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def _remove_stale(folder: int) -> None:
    """Remove what runs left that were killed while they wrote."""
    for name in os.listdir(folder):
        if name.startswith(_NEW):
            with suppress(OSError):
                age = time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
                if not 0 <= age < _STALE:
                    os.unlink(name, dir_fd=folder)
