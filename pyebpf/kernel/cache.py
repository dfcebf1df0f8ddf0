"""Small files kept between runs under $XDG_CACHE_HOME/pyebpf, found by a name of what they were made from.

An entry carries a checksum of itself: one that is cut short, garbled or made by another version is rebuilt, never
believed. Where the directory cannot be written, everything works without it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cached", "directory"]

_MAGIC = b"pyebpf-cache-3\n"
_CHECKSUM_SIZE = 4


def directory() -> str | None:
    """Where entries live, made with mode 0700; None if it cannot be used, or belongs to somebody else."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # The XDG specification: a relative path is ignored.
        if not base.startswith("/"):
            base = os.path.expanduser("~/.cache")
            if base.startswith("~"):  # the user has no home
                return None
        path = os.path.join(base, "pyebpf")
        os.makedirs(path, mode=0o700, exist_ok=True)
        # Root must not believe files that another user can replace.
        return path if os.stat(path).st_uid == os.geteuid() else None
    except OSError:
        return None


def cached(kind: str, key: str, build: Callable[[], bytes]) -> bytes | memoryview:
    """The entry `key` of `kind` ("btf-index-1"), or what `build` returns, which is then kept.

    `key` tells what the entry is made from, fit for a file's name; `kind` names its format and the format's version.
    """
    folder = directory()
    if folder is None:
        return build()
    path = os.path.join(folder, f"{kind}-{key}")
    kept = _read(path)
    if kept is not None:
        return kept
    data = build()
    _write(path, data)
    return data


def _checksum(name: str, data: bytes | memoryview) -> bytes:
    # The name takes part: an entry renamed to another's place is not believed.
    return crc32(data, crc32(name.encode())).to_bytes(_CHECKSUM_SIZE, "little")


def _read(path: str) -> memoryview | None:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    start = len(_MAGIC) + _CHECKSUM_SIZE
    if not content.startswith(_MAGIC) or len(content) < start:
        return None
    data = memoryview(content)[start:]
    return data if content[len(_MAGIC) : start] == _checksum(os.path.basename(path), data) else None


def _write(path: str, data: bytes) -> None:
    """Replace atomically; a full disk or a directory that vanishes only costs the next run some time."""
    from tempfile import mkstemp

    try:
        handle, temporary = mkstemp(dir=os.path.dirname(path), prefix=".new-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _checksum(os.path.basename(path), data) + data)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
