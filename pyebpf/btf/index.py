"""Where each type of a BTF lies: built in one pass, kept on disk by content.

BTF numbers its types by their order and gives no table of offsets, so finding type 90,000 means walking the
89,999 before it. The index is that walk's result: an offset and a name offset for each type.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from struct import Struct as Layout
from typing import TYPE_CHECKING

from pyebpf.btf.nodes import Kind
from pyebpf.errors import BtfError

if TYPE_CHECKING:
    from pyebpf.btf.header import Header

__all__ = ["Index", "digest"]

WORD = 4
# struct btf_type { __u32 name_off; __u32 info; union { __u32 size; __u32 type; }; }
TYPE_WORDS = 3
# Words that follow struct btf_type: so many once, and so many for each of info's `vlen` entries.
TRAILING_WORDS = {
    Kind.INT: (1, 0),
    Kind.PTR: (0, 0),
    Kind.ARRAY: (3, 0),
    Kind.STRUCT: (0, 3),
    Kind.UNION: (0, 3),
    Kind.ENUM: (0, 2),
    Kind.FWD: (0, 0),
    Kind.TYPEDEF: (0, 0),
    Kind.VOLATILE: (0, 0),
    Kind.CONST: (0, 0),
    Kind.RESTRICT: (0, 0),
    Kind.FUNC: (0, 0),
    Kind.FUNC_PROTO: (0, 2),
    Kind.VAR: (1, 0),
    Kind.DATASEC: (0, 3),
    Kind.FLOAT: (0, 0),
    Kind.DECL_TAG: (1, 0),
    Kind.TYPE_TAG: (0, 0),
    Kind.ENUM64: (0, 3),
}

# On disk: this header in little-endian order, then the offsets, then the name offsets, `count` words each.
MAGIC = b"pyebpf BTF index"
VERSION = 1
HEADER = Layout("<16s32sIII")  # magic, SHA-256 of the BTF, version, count, CRC-32 of what follows


def digest(data: bytes | memoryview) -> bytes:
    """SHA-256 of a BTF's bytes: the key under which its index is kept. About 3 ms for a kernel's 5.5 MB."""
    # hashlib pulls in OpenSSL; whoever reads BTF without a cache does not need it.
    from hashlib import sha256

    return sha256(data).digest()


class _Widths(dict[int, int]):
    """Words that a type takes, by its info word; filled as new ones are met, a few hundred in a kernel."""

    def __missing__(self, info: int) -> int:
        try:
            once, each = TRAILING_WORDS[Kind(info >> 24 & 0x1F)]
        except (KeyError, ValueError):
            raise BtfError(f"BTF has a type of the unknown kind {info >> 24 & 0x1F}") from None
        if info & 0x60FF0000:
            raise BtfError(f"BTF has a type with reserved bits set (info {info:#010x})")
        width = self[info] = TYPE_WORDS + once + each * (info & 0xFFFF)
        return width


class Index:
    """Byte offsets of a BTF's own types in its type section, and their name offsets, both by order.

    `names` is kept as bytes, four a type in the BTF's byte order: `bytes.find` beats any loop in Python.
    """

    __slots__ = ("names", "offsets")

    def __init__(self, offsets: array[int], names: bytes) -> None:
        self.offsets = offsets
        self.names = names

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def build(cls, data: bytes, header: Header) -> Index:
        """Walk the type section: about 20 ms for a kernel's 126,000 types. Raises BtfError."""
        words = array("I")
        words.frombytes(memoryview(data)[header.types : header.types_end])
        swapped = header.byteorder != sys.byteorder
        if swapped:
            words.byteswap()
        starts: list[int] = []
        append, widths, at, end = starts.append, _Widths(), 0, len(words)
        try:
            while at < end:
                append(at)
                at += widths[words[at + 1]]
        except IndexError:
            at = end + 1
        if at != end:
            raise BtfError(f"BTF's type section ends in the middle of type {len(starts)}")
        names = array("I", map(words.__getitem__, starts))
        if swapped:
            names.byteswap()
        return cls(array("I", [start * WORD for start in starts]), names.tobytes())

    def to_bytes(self, content: bytes) -> bytes:
        """For a file: the index of the BTF whose `digest` is `content`, with a checksum."""
        offsets = array("I", self.offsets)
        if sys.byteorder == "big":
            offsets.byteswap()
        body = offsets.tobytes() + self.names
        return HEADER.pack(MAGIC, content, VERSION, len(self), zlib.crc32(body)) + body

    @classmethod
    def from_bytes(cls, stored: bytes, content: bytes) -> Index | None:
        """What `to_bytes` stored; None if it is damaged, of another version, or of another BTF than `content`'s."""
        if len(stored) < HEADER.size:
            return None
        magic, of, version, count, checksum = HEADER.unpack_from(stored)
        body = memoryview(stored)[HEADER.size :]
        if (magic, of, version) != (MAGIC, content, VERSION) or len(body) != 2 * WORD * count:
            return None
        if zlib.crc32(body) != checksum:
            return None
        offsets = array("I")
        offsets.frombytes(body[: WORD * count])
        if sys.byteorder == "big":
            offsets.byteswap()
        return cls(offsets, bytes(body[WORD * count :]))
