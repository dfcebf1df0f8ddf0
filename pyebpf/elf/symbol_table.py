"""Names by address, for one file or for the kernel."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_U64_MAX = (1 << 64) - 1
#: Symbols that begin before an address and are looked at for one that reaches over it: functions nest by a few.
_MAX_NESTED = 1024
#: Symbols of one address that are looked at for the one whose name is taken.
_MAX_ALIASES = 16


class Found(NamedTuple):
    """A symbol that covers an address: where it begins, and how many bytes into it the address is."""

    name: str
    start: int
    offset: int


class SymbolTable:
    """Symbols as (address, size, name); one of unknown size, 0, reaches to the next. One without name ends a range.

    Of several names for the same bytes, `open64` is taken and not `__open64`, as perf does.
    """

    def __init__(self, symbols: Iterable[tuple[int, int, bytes]]) -> None:
        ordered = sorted(symbols)
        names = [symbol[2] for symbol in ordered]
        self._set(ordered, names.__getitem__)

    @classmethod
    def of_offsets(cls, symbols: Iterable[tuple[int, int, int]], name_at: Callable[[int], bytes]) -> Self:
        """A table whose names are numbers, such as offsets of a string table: `name_at` makes one when it is needed."""
        self = cls.__new__(cls)
        ordered = sorted(symbols)
        names = array("q", (symbol[2] for symbol in ordered))
        self._set(ordered, lambda index: name_at(names[index]))
        return self

    def _set(self, ordered: Sequence[tuple[int, int, object]], name: Callable[[int], bytes]) -> None:
        self._name = name
        # Arrays: a large program has half a million symbols.
        self._starts = array("Q", [symbol[0] for symbol in ordered])
        self._sizes = array("Q", [symbol[1] for symbol in ordered])
        # The furthest end of all symbols up to each: how far back one may have to look for an enclosing one.
        self._reach = array("Q")
        reach = 0
        for start, size, _ in ordered:
            reach = min(max(reach, start + size), _U64_MAX)
            self._reach.append(reach)

    def __len__(self) -> int:
        return len(self._starts)

    def find(self, address: int) -> Found | None:
        """The innermost symbol that has `address`; None between symbols. A label is no end to what it stands in."""
        nearest = index = bisect_right(self._starts, address) - 1
        while index >= 0 and self._reach[index] > address and nearest - index < _MAX_NESTED:
            start = self._starts[index]
            if address < start + self._sizes[index]:
                return self._found(index, address)
            index -= 1
        if nearest < 0 or self._sizes[nearest] or self._reach[nearest] > self._starts[nearest]:
            return None
        return self._found(nearest, address) if self._name(nearest) else None

    def _found(self, index: int, address: int) -> Found:
        start, size, name = self._starts[index], self._sizes[index], self._name(index)
        for other in range(index - 1, max(index - _MAX_ALIASES, 0) - 1, -1):
            if (self._starts[other], self._sizes[other]) != (start, size):
                break
            alias = self._name(other)
            if alias and _underscores(alias) < _underscores(name):
                name = alias
        return Found(name.decode(errors="surrogateescape"), start, address - start)


def _underscores(name: bytes) -> int:
    return len(name) - len(name.lstrip(b"_"))
