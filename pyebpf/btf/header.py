"""BTF's header: where its sections lie, checked against the bytes there are."""

from __future__ import annotations

from struct import calcsize, unpack_from
from typing import TYPE_CHECKING, Literal

from pyebpf.dataclass import dataclass
from pyebpf.errors import BtfError

if TYPE_CHECKING:
    from typing import Protocol, Self, overload

    class Content(Protocol):
        """BTF's bytes: `bytes`, or a file's memory."""

        def __buffer__(self, flags: int, /) -> memoryview: ...

        def __len__(self) -> int: ...

        @overload
        def __getitem__(self, key: int, /) -> int: ...
        @overload
        def __getitem__(self, key: slice, /) -> bytes: ...
        def find(self, sub: bytes, start: int = ..., end: int = ..., /) -> int: ...


MAGIC = 0xEB9F
VERSION = 1
# struct btf_header { __u16 magic; __u8 version; __u8 flags; __u32 hdr_len, type_off, type_len, str_off, str_len; }
LAYOUT = "HBBIIIII"


@dataclass(frozen=True, slots=True)
class Header:
    """Byte offsets of the type and string sections in the data, and their ends."""

    byteorder: Literal["little", "big"]
    types: int
    types_end: int
    strings: int
    strings_end: int

    @property
    def order(self) -> str:
        """The byte order as the `struct` module writes it."""
        return "<" if self.byteorder == "little" else ">"

    @classmethod
    def parse(cls, data: Content, *, split: bool) -> Self:
        """Read and check the header. Raises BtfError."""
        if len(data) < calcsize("<" + LAYOUT):
            raise BtfError(f"BTF of {len(data)} bytes is shorter than its header")
        byteorder: Literal["little", "big"] = "little" if data[:2] == MAGIC.to_bytes(2, "little") else "big"
        order = "<" if byteorder == "little" else ">"
        magic, version, flags, length, type_off, type_len, str_off, str_len = unpack_from(order + LAYOUT, data)
        if magic != MAGIC:
            raise BtfError(f"not BTF: it starts with {data[:2].hex()}, not with the magic number {MAGIC:x}")
        if version != VERSION or flags:
            raise BtfError(f"BTF of version {version} with flags {flags:#x}; only version 1 without flags is known")
        types, strings = length + type_off, length + str_off
        if length < calcsize(order + LAYOUT) or max(types + type_len, strings + str_len) > len(data):
            raise BtfError(f"BTF is cut short: its header tells of more than its {len(data)} bytes")
        if types % 4 or type_len % 4:
            raise BtfError("BTF's type section is not aligned to 4 bytes")
        if types < strings + str_len and strings < types + type_len:
            raise BtfError("BTF's type and string sections overlap")
        # Every string must end, so that reading one stays inside; offset 0 must be the empty name.
        if str_len and data[strings + str_len - 1]:
            raise BtfError("BTF's last string does not end")
        if not split and (not str_len or data[strings]):
            raise BtfError("BTF's first string is not the empty one")
        return cls(byteorder, types, types + type_len, strings, strings + str_len)
