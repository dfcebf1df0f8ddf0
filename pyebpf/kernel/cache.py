"""Small files kept between runs under $XDG_CACHE_HOME/pyebpf, found by the content they were made from.

An entry carries a digest of itself: one that is cut short, garbled or made by another version is rebuilt, never
believed. Where the directory cannot be written, everything works without it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cached", "content_key", "directory"]

_MAGIC = b"pyebpf-cache-1\n"
_DIGEST_SIZE = 16


def directory() -> Path | None:
    """Where entries live, made with mode 0700; None if it cannot be used, or belongs to somebody else."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # The XDG specification: a relative path is ignored.
        path = (Path(base) if base.startswith("/") else Path.home() / ".cache") / "pyebpf"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Root must not believe files that another user can replace.
        return path if path.stat().st_uid == os.geteuid() else None
    except (OSError, RuntimeError):
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
    path = folder / f"{kind}-{key}"
    data = _read(path)
    if data is None:
        data = build()
        _write(path, data)
    return data


def _digest(name: str, data: bytes) -> bytes:
    # The name takes part: an entry renamed to another's place is not believed.
    return blake2b(data, digest_size=_DIGEST_SIZE, key=blake2b(name.encode(), digest_size=32).digest()).digest()


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST_SIZE
    if not content.startswith(_MAGIC) or len(content) < start:
        return None
    data = content[start:]
    return data if content[len(_MAGIC) : start] == _digest(path.name, data) else None


def _write(path: Path, data: bytes) -> None:
    """Replace atomically; a full disk or a directory that vanishes only costs the next run some time."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _digest(path.name, data) + data)
        Path(temporary).replace(path)
    except OSError:
        with suppress(OSError):
            Path(temporary).unlink()
