"""Shared memory between kernel and process: mmap of ring buffers, perf buffers and mappable arrays."""

from __future__ import annotations

import mmap
from typing import Literal, Self

__all__ = ["PAGE_SIZE", "Mapping"]

PAGE_SIZE: int = mmap.PAGESIZE


class Mapping:
    """`size` bytes of the descriptor `fd` from `offset`, mapped shared; `view` is the memory.

    `view.cast("Q")[i]` loads and stores eight bytes at once, which positions shared with the kernel need.
    Raises OSError as mmap(2) does.
    """

    __slots__ = ("_map", "_views", "view")

    def __init__(self, fd: int, size: int, *, offset: int = 0, writable: bool = False) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=protection, offset=offset)
        self.view = memoryview(self._map)
        self._views: list[memoryview] = [self.view]

    def part(self, offset: int, size: int, code: Literal["B", "b", "H", "h", "I", "i", "Q", "q"]) -> memoryview:
        """`size` bytes from `offset` as items of the `struct` code `code`."""
        part = self.view[offset : offset + size]
        cast = part.cast(code)
        self._views += [part, cast]
        return cast

    def keep(self, view: memoryview) -> memoryview:
        """Release `view`, made from one that was given out, with the mapping."""
        self._views.append(view)
        return view

    def words(self, offset: int, count: int) -> memoryview:
        """`count` u64 words from byte `offset`."""
        return self.part(offset, 8 * count, "Q")

    def close(self) -> None:
        """Unmap. Views given out become invalid; slices of them that still live keep the memory until they are gone."""
        for view in reversed(self._views):
            view.release()
        self._views.clear()
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
