"""Bytes as a source of choices, so that a generator of structured things can be guided by changing bytes."""

from __future__ import annotations

import random

__all__ = ["ByteRandom", "Choices"]


class Choices:
    """`choose(n)` gives a number from 0 to n - 1 from the next bytes; 0 once they are used up."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> int:
        """The next `count` bytes as a number."""
        piece = self.data[self.at : self.at + count]
        self.at += count
        return int.from_bytes(piece, "little")

    def choose(self, count: int) -> int:
        """One of `count` numbers."""
        return self.take((max(count - 1, 1).bit_length() + 7) // 8) % count

    @property
    def left(self) -> bool:
        """Whether any bytes are."""
        return self.at < len(self.data)


class ByteRandom(random.Random):
    """Python's random numbers, drawn from bytes; all zero bits once they are used up, which ends every generator."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self.source = Choices(data)

    def random(self) -> float:
        """From 0 up to 1, in steps of a 256th."""
        return self.source.take(1) / 256

    def getrandbits(self, k: int, /) -> int:
        """A number of `k` bits."""
        return self.source.take((k + 7) // 8) & ((1 << k) - 1)
