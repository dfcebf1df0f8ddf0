"""New inputs from old ones: bytes changed, pieces moved between inputs, words of a dictionary put in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["MAX_BYTES", "minimised_pieces", "mutate", "words"]

MAX_BYTES = 1 << 14
_INTERESTING = (0, 1, 2, 7, 8, 16, 64, 127, 128, 255, 256, 32767, 32768, 65535, 1 << 31, (1 << 31) - 1, (1 << 32) - 1)
_WORDS = re.compile(rb"[A-Za-z_][A-Za-z_0-9]*|\d+|\s+|[^\sA-Za-z_0-9]")


def mutate(
    data: bytes, chance: random.Random, corpus: Sequence[bytes], dictionary: Sequence[bytes], *, text: bool
) -> bytes:
    """`data` with a few changes."""
    for _ in range(1 << chance.randrange(4)):
        data = (
            _words(data, chance, corpus, dictionary)
            if text and chance.randrange(4)
            else _bytes(data, chance, corpus, dictionary)
        )
    return data[:MAX_BYTES]


def _bytes(data: bytes, chance: random.Random, corpus: Sequence[bytes], dictionary: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(data) + 1)
    to = min(len(data), at + (1 << chance.randrange(7)))
    match chance.randrange(8):
        case 0 if at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        case 2:
            size = chance.choice((1, 2, 4, 8))
            number = chance.choice(_INTERESTING) * chance.choice((1, -1)) & ((1 << 8 * size) - 1)
            at -= at % size
            return data[:at] + number.to_bytes(size, chance.choice(("little", "big"))) + data[at + size :]
        case 3:
            return data[:at] + data[to:]
        case 4:
            return data[:to] + data[at:]
        case 5 if dictionary:
            word = chance.choice(dictionary)
            return data[:at] + word + data[at + len(word) * chance.randrange(2) :]
        case _:
            other = chance.choice(corpus)
            start = chance.randrange(len(other) + 1)
            piece = other[start : start + (1 << chance.randrange(9))]
            return data[:at] + piece + data[at + len(piece) * chance.randrange(2) :]


def _words(data: bytes, chance: random.Random, corpus: Sequence[bytes], dictionary: Sequence[bytes]) -> bytes:
    words = _WORDS.findall(data)
    at = chance.randrange(len(words) + 1)
    kind = chance.randrange(8)
    if kind == 0:
        del words[at : at + 1 + chance.randrange(4)]
    elif kind == 1 and words:
        other = chance.randrange(len(words))
        at = min(at, len(words) - 1)
        words[at], words[other] = words[other], words[at]
    elif kind == 2:
        words[at : at + chance.randrange(2)] = [chance.choice(dictionary)]
    elif kind in (3, 4):
        # Lines of another input, or of this one.
        lines = chance.choice(corpus).split(b"\n")
        start = chance.randrange(len(lines))
        piece = lines[start : start + 1 + chance.randrange(3)]
        own = data.split(b"\n")
        place = chance.randrange(len(own) + 1)
        own[place : place + chance.randrange(3)] = piece
        return b"\n".join(own)
    else:
        other_words = _WORDS.findall(chance.choice(corpus))
        start = chance.randrange(len(other_words) + 1)
        count = 1 + chance.randrange(6)
        words[at : at + chance.randrange(count + 1)] = other_words[start : start + count]
    return b"".join(words)


def words(text: str) -> tuple[bytes, ...]:
    """A dictionary: the words of a text, and the spaces that stand between words."""
    return (*(word.encode() for word in dict.fromkeys(text.split())), b"\n", b" ", b"\t", b"\n    ", b": ")


def minimised_pieces(data: bytes) -> list[bytes]:
    """Smaller inputs to try in place of `data`: with a piece cut out, of half its size down to a byte."""
    pieces = []
    size = len(data) // 2
    while size:
        pieces += [data[:at] + data[at + size :] for at in range(0, len(data), size)]
        size //= 2
    return pieces
