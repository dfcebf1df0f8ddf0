"""BTF made, not read: the types a program or map hands to the kernel with BPF_BTF_LOAD."""

from __future__ import annotations

import re
from struct import pack
from typing import TYPE_CHECKING, Literal

from pyebpf.btf.header import LAYOUT, MAGIC, VERSION
from pyebpf.btf.nodes import Kind
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.btf.reader import Btf

HEADER_SIZE = 24
MAX_VLEN = 0xFFFF
# KSYM_NAME_LEN is 512 since Linux 6.1 and 128 before; the kernel refuses a longer name.
MAX_NAME = 127
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.]")


def sanitise_name(name: str) -> str:
    """Return `name` as the kernel takes it: letters, digits, `_` and `.`, no digit first, at most 127 characters."""
    name = NOT_IN_NAMES.sub("_", name)[:MAX_NAME]
    return name if name and not name[0].isdigit() else f"_{name}"[:MAX_NAME]


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return text.encode("utf-8", "backslashreplace")


class BtfBuilder:
    """Collects types, each method giving the new type's id; the same calls give the same bytes.

    Names are taken through `sanitise_name`, except of integers and in `string`, which are free text for the kernel.
    Members, enumerators and parameters come as the nodes of this package give them, so what was read can be written.
    With a `base` it makes split BTF. Raises InvalidValue for what a field can't hold.
    """

    def __init__(self, base: Btf | None = None, byteorder: Literal["little", "big"] = "little") -> None:
        self._order = "<" if (base.byteorder if base is not None else byteorder) == "little" else ">"
        self._types = bytearray()
        self._strings = bytearray(b"" if base is not None else b"\0")
        self._string_start = base.string_stop if base is not None else 0
        self._offsets = {"": 0}
        self._next = base.stop if base is not None else 1

    def to_bytes(self) -> bytes:
        """The whole BTF: header, types, strings."""
        sizes = HEADER_SIZE, 0, len(self._types), len(self._types), len(self._strings)
        return pack(self._order + LAYOUT, MAGIC, VERSION, 0, *sizes) + self._types + self._strings

    def string(self, text: str) -> int:
        """Offset of a string, added if it is new: file names and source lines for line_info. NULs end it early."""
        text = text.split("\0", 1)[0]
        if text not in self._offsets:
            self._offsets[text] = self._string_start + len(self._strings)
            self._strings += _encode(text) + b"\0"
        return self._offsets[text]

    def _name(self, name: str) -> int:
        return self.string(sanitise_name(name)) if name else 0

    def _add(self, kind: Kind, name: int, value: int, *, vlen: int = 0, flag: bool = False) -> int:
        if not 0 <= vlen <= MAX_VLEN:
            raise InvalidValue(f"a BTF {kind.name} holds at most {MAX_VLEN} entries, not {vlen}")
        self._words("III", name, int(flag) << 31 | kind << 24 | vlen, value)
        self._next += 1
        return self._next - 1

    def _words(self, layout: str, *values: int) -> None:
        for code, value in zip(layout, values, strict=True):
            low, high = (-(1 << 31), 1 << 31) if code == "i" else (0, 1 << 32)
            if not low <= value < high:
                raise InvalidValue(f"BTF holds 32 bits where {value} was given")
        self._types += pack(self._order + layout, *values)

    def add_int(
        self,
        name: str,
        size: int,
        *,
        signed: bool = False,
        char: bool = False,
        boolean: bool = False,
        bits: int | None = None,
        bit_offset: int = 0,
    ) -> int:
        """Integer of `size` bytes (1, 2, 4, 8 or 16); `bits` and `bit_offset` for an old-style bit-field."""
        bits = size * 8 if bits is None else bits
        if size not in {1, 2, 4, 8, 16} or not 0 < bits <= min(size * 8, 255) or not 0 <= bit_offset < size * 8:
            raise InvalidValue(f"no BTF integer has {size} bytes and {bits} bits from bit {bit_offset}")
        new = self._add(Kind.INT, self.string(name), size)
        self._words("I", (signed | char << 1 | boolean << 2) << 24 | bit_offset << 16 | bits)
        return new

    def add_float(self, name: str, size: int) -> int:
        """Floating-point number of `size` bytes."""
        return self._add(Kind.FLOAT, self._name(name), size)

    def add_ptr(self, to: int) -> int:
        """Pointer to type `to`; 0 is void."""
        return self._add(Kind.PTR, 0, to)

    def add_typedef(self, name: str, of: int) -> int:
        """Another name for type `of`."""
        return self._add(Kind.TYPEDEF, self._name(name), of)

    def add_const(self, of: int) -> int:
        """`const` type `of`."""
        return self._add(Kind.CONST, 0, of)

    def add_volatile(self, of: int) -> int:
        """`volatile` type `of`."""
        return self._add(Kind.VOLATILE, 0, of)

    def add_restrict(self, of: int) -> int:
        """`restrict` type `of`."""
        return self._add(Kind.RESTRICT, 0, of)

    def add_type_tag(self, tag: str, of: int) -> int:
        """Type `of` tagged, such as with "user"."""
        return self._add(Kind.TYPE_TAG, self.string(tag), of)

    def add_array(self, of: int, index_type: int, length: int) -> int:
        """Array of `length` elements of type `of`."""
        new = self._add(Kind.ARRAY, 0, 0)
        self._words("III", of, index_type, length)
        return new

    def add_struct(self, name: str, size: int, members: Iterable[tuple[str, int, int, int]]) -> int:
        """Struct of `size` bytes from (name, type, bit offset, bit size), the last 0 but for bit-fields."""
        return self._composite(Kind.STRUCT, name, size, list(members))

    def add_union(self, name: str, size: int, members: Iterable[tuple[str, int, int, int]]) -> int:
        """Union, as `add_struct`."""
        return self._composite(Kind.UNION, name, size, list(members))

    def _composite(self, kind: Kind, name: str, size: int, members: list[tuple[str, int, int, int]]) -> int:
        flag = any(bit_size for *_, bit_size in members)
        new = self._add(kind, self._name(name), size, vlen=len(members), flag=flag)
        for label, type_, offset, bit_size in members:
            if not 0 <= bit_size < 256 or (flag and not 0 <= offset < 1 << 24):
                raise InvalidValue(f"BTF can't place member {label!r} of {bit_size} bits at bit {offset}")
            self._words("III", self._name(label), type_, bit_size << 24 | offset)
        return new

    def add_enum(self, name: str, size: int, values: Iterable[tuple[str, int]], *, signed: bool = False) -> int:
        """Enum of 32-bit constants from (name, value)."""
        entries = list(values)
        new = self._add(Kind.ENUM, self._name(name), size, vlen=len(entries), flag=signed)
        for label, value in entries:
            self._words("Ii" if signed else "II", self._name(label), value)
        return new

    def add_enum64(self, name: str, size: int, values: Iterable[tuple[str, int]], *, signed: bool = False) -> int:
        """Enum of 64-bit constants from (name, value)."""
        entries = list(values)
        new = self._add(Kind.ENUM64, self._name(name), size, vlen=len(entries), flag=signed)
        for label, value in entries:
            self._words("IIi" if signed else "III", self._name(label), value & 0xFFFFFFFF, value >> 32)
        return new

    def add_fwd(self, name: str, *, union: bool = False) -> int:
        """Struct, or union, declared only."""
        return self._add(Kind.FWD, self._name(name), 0, flag=union)

    def add_func_proto(self, returns: int, params: Iterable[tuple[str, int]] = ()) -> int:
        """Prototype from (name, type) of each parameter; a last ("", 0) makes it variadic."""
        entries = list(params)
        new = self._add(Kind.FUNC_PROTO, 0, returns, vlen=len(entries))
        for label, type_ in entries:
            self._words("II", self._name(label), type_)
        return new

    def add_func(self, name: str, proto: int, linkage: int = 0) -> int:
        """Function of prototype `proto`: linkage 0 is static, 1 global. The kernel wants every parameter named."""
        return self._add(Kind.FUNC, self._name(name), proto, vlen=linkage)

    def add_var(self, name: str, of: int, linkage: int = 1) -> int:
        """Variable of type `of`."""
        new = self._add(Kind.VAR, self._name(name), of)
        self._words("I", linkage)
        return new

    def add_datasec(self, name: str, size: int, variables: Iterable[tuple[int, int, int]]) -> int:
        """Section of `size` bytes from (variable's id, offset, size)."""
        entries = list(variables)
        new = self._add(Kind.DATASEC, self._name(name), size, vlen=len(entries))
        for entry in entries:
            self._words("III", *entry)
        return new

    def add_decl_tag(self, tag: str, of: int, component: int = -1) -> int:
        """Tag on type `of`, or on its member or parameter number `component`."""
        new = self._add(Kind.DECL_TAG, self.string(tag), of)
        self._words("i", component)
        return new
