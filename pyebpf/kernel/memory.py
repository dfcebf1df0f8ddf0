"""Shared memory between kernel and process: mmap of ring buffers, perf buffers and mappable arrays."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Literal

from pyebpf.closing import Closing

PAGE_SIZE: int = mmap.PAGESIZE
_FIXED_NOREPLACE = 0x100000  # MAP_FIXED_NOREPLACE, since Linux 4.17


class _Placed:
    """Memory mapped at an address of one's own choice, which Python's mmap has no parameter for."""

    def __init__(self, address: int, fd: int, size: int, protection: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._unmap = libc.munmap
        self._unmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        place = libc.mmap
        place.restype = ctypes.c_void_p
        numbers = (ctypes.c_int,) * 3
        place.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *numbers, ctypes.c_long)
        if place(address, size, protection, mmap.MAP_SHARED | _FIXED_NOREPLACE, fd, 0) != address:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._place = (address, size)
        self.view = memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")

    def close(self) -> None:
        """Unmap."""
        self._unmap(*self._place)


class Mapping(Closing):
    """`size` bytes of the descriptor `fd` from `offset`, mapped shared; `view` is the memory.

    It lies at `address`, if one is given (EEXIST if something else does).

    `view.cast("Q")[i]` loads and stores eight bytes at once, which positions shared with the kernel need.
    Raises OSError as mmap(2) does.
    """

    __slots__ = ("_map", "_views", "view")

    def __init__(self, fd: int, size: int, *, offset: int = 0, writable: bool = False, address: int = 0) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map: mmap.mmap | _Placed
        if address:
            self._map = _Placed(address, fd, size, protection)
            self.view = self._map.view
        else:
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
