"""The loaded map behind an aggregation, and the values of all processors put together."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Backend", "Words", "combiner"]

#: The 8-byte words of one value, all processors' put together.
Words = tuple[int, ...]


class Backend(Protocol):
    """A loaded per-CPU map: values are bytes, all possible processors' slots laid end to end."""

    def lookup(self, key: Any, /) -> bytes | None:
        """Return the value of a key (a Python value of the key's type); None if the key is missing."""

    def raw_items(self) -> Iterator[tuple[bytes, bytes]]:
        """Return every key and value."""


def combiner(codes: str, combine: Sequence[Callable[..., int]] | None) -> Callable[[bytes], Words]:
    """Function from a value's bytes to its words.

    `codes` has a struct code ("Q", "q") for each word; `combine` a function of two for each, None for sums.
    Processors that hold nothing but zeros, most of them for most keys, have nothing to add.
    """
    packer = Struct(f"<{codes}")
    size, unpack = packer.size, packer.unpack_from
    nothing = bytes(size)

    def words(value: bytes) -> Words:
        slots = [unpack(value, at) for at in range(0, len(value), size) if value[at : at + size] != nothing]
        if not slots:
            return (0,) * len(codes)
        if len(slots) == 1:
            return slots[0]
        if combine is None:
            return tuple(map(sum, zip(*slots, strict=True)))
        combined: Words = slots[0]
        for slot in slots[1:]:
            combined = tuple(join(a, b) for join, a, b in zip(combine, combined, slot, strict=True))
        return combined

    return words
