"""Index of the types of a BTF: built in one pass, fit to be kept on disk.

BTF numbers its types by their order and gives no table of offsets, so finding type 90,000 means walking the
89,999 before it. The index is that walk's result: an offset and a name offset for each type. Stored, it also has the
names' order, which takes longer to make than it saves in one run.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from struct import Struct as Layout
from typing import TYPE_CHECKING

from pyebpf.btf.nodes import Kind
from pyebpf.dataclass import dataclass
from pyebpf.errors import BtfError

if TYPE_CHECKING:
    from pyebpf.btf.header import Content, Header

    Words = array[int] | memoryview[int]

WORD = 4
ENUM_INFO = frozenset({Kind.ENUM << 24, Kind.ENUM64 << 24})
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

# On disk: this header, then each array's words, all in little-endian order.
MAGIC = b"pyebpf BTF index"
VERSION = 2
HEADER = Layout("<16s32sIIIII")  # magic, identity of the BTF, version, lengths of types, sorted and enumerators, CRC-32


def digest(data: Content | memoryview) -> bytes:
    """SHA-256 of a BTF's bytes: an identity to store its index under. About 3 ms for a kernel's 5.5 MB."""
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


@dataclass(frozen=True, slots=True)
class Names:
    """Result of `Index.sort_names`: orders that make a look-up a matter of microseconds.

    `types` are the types that have a name, by order, sorted by it; `enumerators` and `enums` go together: the name
    offsets of all enumerators, sorted by name, and the order of each one's enum.
    """

    types: Words
    enumerators: Words
    enums: Words


class Index:
    """Byte offsets of a BTF's own types in its type section and their name offsets, both by order.

    `sorted` is there only in an index that was stored.
    """

    __slots__ = ("names", "offsets", "sorted", "source")

    #: Bytes of what identifies a BTF: its `digest`, or what else no two have in common.
    IDENTITY = 32

    def __init__(
        self,
        offsets: Words,
        names: Words,
        ordered: Names | None = None,
        source: tuple[Content, Header] | None = None,
    ) -> None:
        self.offsets = offsets
        self.names = names
        self.sorted = ordered
        self.source = source

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def build(cls, data: Content, header: Header) -> Index:
        """Walk the type section: about 20 ms for a kernel's 126,000 types. Raises BtfError."""
        words = _words(data, header)
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
        return cls(array("I", [start * WORD for start in starts]), names, source=(data, header))

    def positions(self, name_offset: int) -> list[int]:
        """Types, by order, whose name is at that string offset."""
        found = []
        # bytes.find beats any loop in Python.
        names, pattern = self.names.tobytes(), array("I", [name_offset]).tobytes()
        at = names.find(pattern)
        while at >= 0:
            if at % WORD == 0:
                found.append(at // WORD)
            at = names.find(pattern, at + 1)
        return found

    def sort_names(self) -> Names:
        """Sort what has a name, as it pays before storing: about 100 ms for a kernel. Raises BtfError."""
        assert self.source is not None, "an index that was stored has this"
        data, header = self.source
        words = _words(data, header)
        strings = data[header.strings : header.strings_end]
        texts: dict[int, bytes] = {}

        def text(offset: int) -> bytes:
            if offset not in texts:
                if offset >= len(strings):
                    raise BtfError(f"BTF names a string at {offset}, beyond its strings' {len(strings)} bytes")
                texts[offset] = strings[offset : strings.index(0, offset)]
            return texts[offset]

        named = [(text(name), position) for position, name in enumerate(self.names) if name]
        constants = []
        for position, offset in enumerate(self.offsets):
            info = words[offset // WORD + 1]
            if info & 0x1F000000 in ENUM_INFO:
                first, (_, each) = offset // WORD + TYPE_WORDS, TRAILING_WORDS[Kind(info >> 24 & 0x1F)]
                entries = words[first : first + each * (info & 0xFFFF) : each]
                constants += [(text(name), position, name) for name in entries]
        named.sort()
        constants.sort()
        return Names(
            array("I", [position for _, position in named]),
            array("I", [name for *_, name in constants]),
            array("I", [position for _, position, _ in constants]),
        )

    def to_bytes(self, identity: bytes) -> bytes:
        """For a file: the index of a BTF, not split, that is known by `identity`, with a checksum."""
        ordered = self.sorted if self.sorted is not None else self.sort_names()
        arrays = (self.offsets, self.names, ordered.types, ordered.enumerators, ordered.enums)
        body = b"".join(_little(each) for each in arrays)
        lengths = len(self), len(ordered.types), len(ordered.enums)
        return HEADER.pack(MAGIC, identity, VERSION, *lengths, zlib.crc32(body)) + body

    @classmethod
    def from_bytes(cls, stored: bytes | memoryview, identity: bytes) -> Index | None:
        """Read what `to_bytes` stored; None if damaged, of another version, or of another BTF than `identity`'s."""
        if len(stored) < HEADER.size:
            return None
        magic, of, version, types, named, enumerators, checksum = HEADER.unpack_from(stored)
        body = memoryview(stored)[HEADER.size :]
        lengths = (types, types, named, enumerators, enumerators)
        if (magic, of, version) != (MAGIC, identity, VERSION) or len(body) != WORD * sum(lengths):
            return None
        if zlib.crc32(body) != checksum:
            return None
        arrays = []
        for length in lengths:
            arrays.append(_native(body[: WORD * length]))
            body = body[WORD * length :]
        offsets, names, *ordered = arrays
        return cls(offsets, names, Names(*ordered))


def _words(data: Content, header: Header) -> array[int]:
    """The type section as numbers."""
    words = array("I")
    words.frombytes(memoryview(data)[header.types : header.types_end])
    if header.byteorder != sys.byteorder:
        words.byteswap()
    return words


def _little(words: Words) -> bytes:
    """Numbers as the file has them."""
    if sys.byteorder == "big":
        words = array("I", words)
        words.byteswap()
    return words.tobytes()


def _native(stored: memoryview) -> Words:
    """Numbers of the file, where they lie if this machine's byte order is the file's."""
    if sys.byteorder == "little":
        return stored.cast("I")
    words = array("I")
    words.frombytes(stored)
    words.byteswap()
    return words
