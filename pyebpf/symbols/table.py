"""Names by address, for one file or for the kernel."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Found", "SymbolTable"]


class Found(NamedTuple):
    """A symbol that covers an address: where it begins, and how many bytes into it the address is."""

    name: str
    start: int
    offset: int


class SymbolTable:
    """Symbols as (address, size, name); one of unknown size, 0, reaches to the next. One without name ends a range."""

    def __init__(self, symbols: Iterable[tuple[int, int, bytes]]) -> None:
        self._symbols = sorted(symbols)
        self._starts = [symbol[0] for symbol in self._symbols]
        # The furthest end of all symbols up to each: how far back one may have to look for an enclosing one.
        self._reach: list[int] = []
        reach = 0
        for start, size, _ in self._symbols:
            reach = max(reach, start + size)
            self._reach.append(reach)

    def __len__(self) -> int:
        return len(self._symbols)

    def find(self, address: int) -> Found | None:
        """The innermost symbol that has `address`; None between symbols. A label is no end to what it stands in."""
        nearest = index = bisect_right(self._starts, address) - 1
        while index >= 0 and self._reach[index] > address:
            start, size, _ = self._symbols[index]
            if address < start + size:
                return self._found(index, address)
            index -= 1
        if nearest < 0:
            return None
        start, size, name = self._symbols[nearest]
        return self._found(nearest, address) if name and size == 0 and self._reach[nearest] <= start else None

    def _found(self, index: int, address: int) -> Found:
        start, _, name = self._symbols[index]
        return Found(name.decode(errors="surrogateescape"), start, address - start)
