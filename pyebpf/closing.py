"""`Closing`: what is open until it is closed, at the end of a `with` at the latest."""

from __future__ import annotations

from typing import Self


class Closing:
    """Open until `close()`, or the end of a `with`."""

    __slots__ = ()

    def close(self) -> None:
        """Give up what it holds; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
