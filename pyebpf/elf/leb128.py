"""Numbers of variable length in DWARF: little-endian base 128, section 7.6 of DWARF 5."""

from __future__ import annotations


def uleb(data: bytes, place: int) -> tuple[int, int]:
    """An unsigned LEB128 number of at most ten bytes, and the place behind it. Raises IndexError."""
    value = data[place]
    if value < 0x80:
        return value, place + 1
    value &= 0x7F
    for shift in range(7, 70, 7):
        place += 1
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
    raise IndexError


def sleb(data: bytes, place: int) -> tuple[int, int]:
    """A signed LEB128 number of at most ten bytes, and the place behind it. Raises IndexError."""
    value, end = uleb(data, place)
    bits = 7 * (end - place)
    return (value - (1 << bits) if value >> (bits - 1) & 1 else value), end
