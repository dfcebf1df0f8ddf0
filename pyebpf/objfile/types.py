"""An object's own BTF as a kernel takes it, with the same ids.

Clang leaves out where variables lie in their section, and describes what other files define; the kernel refuses both.
As in libbpf, sections get their sizes and offsets, and the rest is changed into what it has no objections to.
"""

from __future__ import annotations

from struct import (
    error as StructError,  # noqa: N812 - it is a class, spelled as no class is
    pack_into,
    unpack_from,
)
from typing import TYPE_CHECKING

from pyebpf.btf import Kind
from pyebpf.btf.header import Header
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.btf import Btf
    from pyebpf.elf.headers import Section
    from pyebpf.elf.relocations import RelocatableFile

_HEAD, _EXTERN, _GLOBAL = 12, 2, 1
#: Bytes behind the three words of a type: of their own, and for each of its parts.
_OWN = {Kind.INT: 4, Kind.ARRAY: 12, Kind.VAR: 4, Kind.DECL_TAG: 4}
_EACH = {Kind.STRUCT: 12, Kind.UNION: 12, Kind.ENUM: 8, Kind.ENUM64: 12, Kind.FUNC_PROTO: 8, Kind.DATASEC: 12}


def loadable(elf: RelocatableFile, data: bytes, btf: Btf, sections: frozenset[str]) -> bytes:
    """The bytes of section .BTF for BTF_LOAD; `sections` are those whose variables the kernel is to know."""
    text = elf.find(".text")
    functions = elf.functions(text) if text is not None else ()
    hidden = frozenset(symbol.name for symbol in functions if symbol.hidden)
    try:
        return _changed(elf, data, btf, sections, hidden)
    except (StructError, ValueError):  # a part that is not inside the bytes, a kind that there is not
        raise MalformedData("the object's BTF is garbled") from None


def _changed(elf: RelocatableFile, data: bytes, btf: Btf, sections: frozenset[str], hidden: frozenset[str]) -> bytes:
    out, order = bytearray(data), Header.parse(data, split=False).order
    records = list(_records(data, order))
    integer, size = next(
        ((number, unpack_from(order + "I", data, at + 8)[0]) for number, at, kind, _ in records if kind is Kind.INT),
        (0, 0),
    )
    # The kernel wants a name for each parameter of a function, and any will do.
    (named,) = next((unpack_from(order + "I", data, at) for _, at, kind, _ in records if kind is Kind.FUNC), (0,))
    for number, at, kind, count in records:
        if kind is Kind.DATASEC:
            name = btf.type_by_id(number).name
            section = elf.find(name) if name in sections else None
            if section is not None:
                _place_variables(out, order, at, count, section, elf, btf)
                continue
            # A structure without a name, of as many numbers in one place: nothing refers to it.
            pack_into(order + "III", out, at, 0, Kind.STRUCT << 24 | count, size)
            for part in range(at + _HEAD, at + _HEAD + 12 * count, 12):
                pack_into(order + "III", out, part, 0, integer, 0)
        elif kind is Kind.FUNC and (count != _GLOBAL or btf.type_by_id(number).name in hidden):
            # Static: the verifier follows each call of it. A global function it verifies by itself, for all arguments;
            # libbpf's convention is that hidden ones are for this object alone.
            pack_into(order + "I", out, at + 4, Kind.FUNC << 24)
        elif kind is Kind.VAR and unpack_from(order + "I", data, at + _HEAD)[0] == _EXTERN:
            pack_into(order + "II", out, at + 8, integer, _GLOBAL)
        elif kind is Kind.FUNC_PROTO:
            for part in range(at + _HEAD, at + _HEAD + 8 * count, 8):
                name_offset, type_id = unpack_from(order + "II", data, part)
                if type_id and not name_offset:
                    pack_into(order + "I", out, part, named)
    return bytes(out)


def _records(data: bytes, order: str) -> Iterator[tuple[int, int, Kind, int]]:
    """Each type's id, where it begins, its kind and number of parts."""
    header = Header.parse(data, split=False)
    at, number = header.types, 1
    while at < header.types_end:
        (info,) = unpack_from(order + "I", data, at + 4)
        kind, count = Kind(info >> 24 & 0x1F), info & 0xFFFF
        yield number, at, kind, count
        at += _HEAD + _OWN.get(kind, 0) + _EACH.get(kind, 0) * count
        number += 1


def _place_variables(
    out: bytearray, order: str, at: int, count: int, section: Section, elf: RelocatableFile, btf: Btf
) -> None:
    """Fill in the section's size, and where its variables lie, in rising order."""
    places = {symbol.name: symbol.value for symbol in elf.symbols if symbol.section == section.number}
    found = []
    for part in range(at + _HEAD, at + _HEAD + 12 * count, 12):
        type_id, _, size = unpack_from(order + "III", out, part)
        found.append((places.get(btf.type_by_id(type_id).name, 0), type_id, size))
    pack_into(order + "I", out, at + 8, section.size)
    for index, (offset, type_id, size) in enumerate(sorted(found)):
        pack_into(order + "III", out, at + _HEAD + 12 * index, type_id, offset, size)
