"""The blocks of a recording: each with its length and a checksum, so that damage is found where it is.

A file is MAGIC, then blocks. A block is a header of 20 bytes, little-endian, then what it holds:

    4 bytes   "PBLK"
    u8        HEADER or ENTRIES; a reader skips others
    u8        1 if it is compressed (zlib), else 0
    u16       0
    u32       bytes that follow
    u32       bytes that these are when decompressed
    u32       CRC-32 (zlib.crc32) of the 16 bytes before and of the bytes that follow

Decompressed it is JSON.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from typing import IO, TYPE_CHECKING, Any

from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"pyebpf\x00\x01"
HEADER, ENTRIES = 1, 2
#: Bytes of a block, decompressed. What is written stays far below, but for a single entry.
MAX_BLOCK = 4 << 20
_MARK = b"PBLK"
_HEAD = struct.Struct("<4sBBHII")
_CHECKSUM = struct.Struct("<I")
_HEAD_SIZE = _HEAD.size + _CHECKSUM.size
#: The fastest of zlib's levels: JSON of many alike records shrinks to a sixth.
_LEVEL = 1
#: More digits than any number of a kernel has; to print such a number, or to divide it, may take for ever or fail.
_MANY_DIGITS = re.compile(rb"[0-9]{40}")
_MAX_NUMBER = 1 << 128


class Damage(MalformedData):
    """The place in a recording, in bytes from its beginning, up to which it can be read, and what is wrong there."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(f"{message} (byte {offset})")
        self.offset = offset


def packed(kind: int, value: object) -> tuple[bytes, int]:
    """A block with a JSON value, and the size of that. Raises OverflowError for one that is too large."""
    raw = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(raw) > MAX_BLOCK:
        raise OverflowError(f"{len(raw)} bytes are more than a block takes")
    data = zlib.compress(raw, _LEVEL)
    head = _HEAD.pack(_MARK, kind, 1, 0, len(data), len(raw))
    return b"".join((head, _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(head))), data)), len(raw)


def read_blocks(file: IO[bytes]) -> Iterator[tuple[int, int, int, Any]]:
    """The offset, kind, decompressed size and JSON value of each block of a file. Raises Damage and OSError."""
    found = file.read(len(MAGIC))
    if found != MAGIC:
        if found[:6] == MAGIC[:6] and len(found) == len(MAGIC):
            raise Damage(0, f"a recording of format {found[-1]}, and this version of pyebpf reads format {MAGIC[-1]}")
        raise Damage(0, "this is not a recording of pyebpf's")
    offset = len(MAGIC)
    while head := file.read(_HEAD_SIZE):
        if len(head) < _HEAD_SIZE:
            raise Damage(offset, "the file was cut short within a block")
        mark, kind, compression, zero, size, raw_size = _HEAD.unpack_from(head)
        if mark != _MARK or zero or compression > 1:
            raise Damage(offset, "there is no block where one should begin")
        # zlib makes nothing larger by more than a thousandth and a few bytes.
        if raw_size > MAX_BLOCK or size > MAX_BLOCK + (MAX_BLOCK >> 8):
            raise Damage(offset, f"a block of {max(size, raw_size)} bytes is larger than any may be")
        data = file.read(size)
        if len(data) < size:
            raise Damage(offset, "the file was cut short within a block")
        if zlib.crc32(data, zlib.crc32(head[: _HEAD.size])) != _CHECKSUM.unpack_from(head, _HEAD.size)[0]:
            raise Damage(offset, "a block does not have its checksum")
        if kind in {HEADER, ENTRIES}:
            raw = _decompressed(offset, data, raw_size) if compression else data
            yield offset, kind, raw_size, _value(offset, raw, raw_size)
        offset += _HEAD_SIZE + size


def _decompressed(offset: int, data: bytes, size: int) -> bytes:
    """The bytes that were compressed; no more than one byte above what the block declares is ever made."""
    decompressor = zlib.decompressobj()
    try:
        return decompressor.decompress(data, size + 1)
    except zlib.error as error:
        raise Damage(offset, f"a block cannot be decompressed ({error})") from None


def _value(offset: int, raw: bytes, size: int) -> Any:
    if len(raw) != size:
        raise Damage(offset, "a block does not have the size that it declares")
    try:
        return json.loads(raw, parse_int=_number if _MANY_DIGITS.search(raw) else None, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Damage(offset, "a block is no JSON") from None


def _number(digits: str) -> int:
    value = int(digits)  # as long as Python reads at all: a ValueError above 4,300 digits
    if not -_MAX_NUMBER < value < _MAX_NUMBER:
        raise ValueError(digits)
    return value


def _refuse(constant: str) -> float:
    raise ValueError(constant)
