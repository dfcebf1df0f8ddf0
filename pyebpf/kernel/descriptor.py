"""Owned file descriptors. Every descriptor that pyebpf keeps open is made here, so that a leak is seen."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from pyebpf.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable

_open: dict[int, str] = {}


def open_descriptors() -> dict[int, str]:
    """Descriptors owned now: number to what it is. For tests that look for leaks."""
    return dict(_open)


class Descriptor(Closing):
    """Owns the file descriptor `fd`, described by `what` ("map counts"). Closed once, by `close()` or `with`.

    `closer` closes a number that belongs to another object, such as `select.epoll`. A
    descriptor that is forgotten is closed when it is collected, with a `ResourceWarning`.
    """

    __slots__ = ("_closer", "_fd", "what")

    def __init__(self, fd: int, what: str, closer: Callable[[], None] | None = None) -> None:
        self._fd = fd
        self._closer = closer
        self.what = what
        _open[fd] = what

    def __repr__(self) -> str:
        state = "closed" if self._fd < 0 else f"fd {self._fd}"
        return f"<{type(self).__name__} {self.what}, {state}>"

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def fileno(self) -> int:
        """The number. Raises ValueError after `close()`."""
        if self._fd < 0:
            raise ValueError(f"descriptor of {self.what} is closed")
        return self._fd

    def close(self) -> None:
        """Close it; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _open.pop(fd, None)
            if self._closer is None:
                os.close(fd)
            else:
                self._closer()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)
            self.close()
