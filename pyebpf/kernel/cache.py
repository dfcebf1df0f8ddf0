"""Small files kept between runs under $XDG_CACHE_HOME/pyebpf, found by the content they were made from.

An entry carries a digest of itself: one that is cut short, garbled or made by another version is rebuilt, never
believed. Where the directory cannot be written, everything works without it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cached", "content_key", "directory"]

_MAGIC = b"pyebpf-cache-2\n"
_DIGEST_SIZE = 16


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


def content_key(*parts: bytes) -> str:
    """A name for the content: hexadecimal digest of the parts and their lengths."""
    digest = blake2b(digest_size=_DIGEST_SIZE)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def cached(kind: str, key: str, build: Callable[[], bytes]) -> bytes:
    """The entry `key` of `kind` ("btf-index-1"), or what `build` returns, which is then kept.

    `key` comes from `content_key`; `kind` names the format of the entry and its version.
    """
    folder = directory()
    if folder is None:
        return build()
    path = os.path.join(folder, f"{kind}-{key}")
    data = _read(path)
    if data is None:
        data = build()
        _write(path, data)
    return data


def _digest(name: str, data: bytes) -> bytes:
    # The name takes part: an entry renamed to another's place is not believed.
    digest = sha256(f"{name}\n".encode())
    digest.update(data)
    return digest.digest()[:_DIGEST_SIZE]


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST_SIZE
    if not content.startswith(_MAGIC) or len(content) < start:
        return None
    data = content[start:]
    return data if content[len(_MAGIC) : start] == _digest(os.path.basename(path), data) else None


def _write(path: str, data: bytes) -> None:
    """Replace atomically; a full disk or a directory that vanishes only costs the next run some time."""
    from tempfile import mkstemp

    try:
        handle, temporary = mkstemp(dir=os.path.dirname(path), prefix=".new-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _digest(os.path.basename(path), data) + data)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
