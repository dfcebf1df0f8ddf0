"""Struct members by name and by path, through anonymous structs, unions and arrays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.btf.nodes import MAX_DEPTH, Array, Composite, Int
from pyebpf.btf.record import Record
from pyebpf.errors import BtfError, InvalidValue, NotFound

if TYPE_CHECKING:
    from pyebpf.btf.reader import Btf

PART = r"[A-Za-z_]\w*(?:\[\d{1,10}\])*"
PATH = re.compile(rf"{PART}(?:\.{PART})*", re.ASCII)
STEP = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]", re.ASCII)


class MemberAccess(Record):
    """Position of a member: `bit_offset` from the start of the outermost struct; `bit_size` is 0 but for bit-fields."""

    name: str
    type: int
    bit_offset: int
    bit_size: int = 0

    @property
    def offset(self) -> int:
        """In bytes; of a bit-field, of the byte in which it begins."""
        return self.bit_offset // 8


def flat_members(btf: Btf, struct: int) -> dict[str, MemberAccess]:
    """All members by name, those of anonymous members included, in order of declaration.

    Raises NotFound for what has no members, BtfError for a struct inside itself.
    """
    found: dict[str, MemberAccess] = {}
    _flatten(btf, struct, 0, found, set(), MAX_DEPTH)
    return found


def _flatten(btf: Btf, id_: int, base: int, found: dict[str, MemberAccess], seen: set[int], depth: int) -> None:
    if not depth:
        raise BtfError(f"BTF nests anonymous structs more than {MAX_DEPTH} deep at type {id_}")
    # In C a struct has no two members of one name, so an anonymous type met again brings nothing new: each is walked
    # once, whatever garbled BTF says.
    seen.add(id_)
    for each in _composite(btf, id_).members:
        type_ = btf.resolve(each.type)
        node = btf.type_by_id(type_)
        if each.name:
            bit_offset, bit_size = base + each.bit_offset, each.bit_size
            # Where a struct does without the kind flag (always, before Linux 5.0), a bit-field is an odd INT.
            if not bit_size and isinstance(node, Int) and (node.bit_offset or node.bits != node.size * 8):
                bit_offset, bit_size = bit_offset + node.bit_offset, node.bits
            found.setdefault(each.name, MemberAccess(each.name, each.type, bit_offset, bit_size))
        elif isinstance(node, Composite) and type_ not in seen:
            _flatten(btf, type_, base + each.bit_offset, found, seen, depth - 1)


def _composite(btf: Btf, id_: int) -> Composite:
    node = btf.type_by_id(btf.resolve(id_))
    if not isinstance(node, Composite):
        raise NotFound(f"{type(node).__name__} {node.name!r} has no members")
    return node


def path_steps(path: str) -> list[tuple[str, int]]:
    """Split `a.b[3]` into [("a", 0), ("b", 0), ("", 3)]: names, and indices with no name. Raises InvalidValue."""
    if not PATH.fullmatch(path):
        raise InvalidValue(f"{path!r} is not a path of members such as 'a.b[3].c'")
    return [(name, int(index or 0)) for name, index in STEP.findall(path)]


def resolve_path(btf: Btf, struct: int, path: str) -> MemberAccess:
    """Follow `a.b[3].c` inside one struct; a pointer on the way is the caller's to follow.

    Raises NotFound for an unknown member, InvalidValue for text that is not a path and for an index out of range; in a
    flexible array every index is in range.
    """
    type_, bit_offset, bit_size = struct, 0, 0
    for name, index in path_steps(path):
        if name:
            step = btf.member(type_, name)
            type_, bit_offset, bit_size = step.type, bit_offset + step.bit_offset, step.bit_size
            continue
        array = btf.type_by_id(btf.resolve(type_))
        if not isinstance(array, Array):
            raise InvalidValue(f"{path!r} indexes what is not an array but {type(array).__name__} {array.name!r}")
        if array.length and index >= array.length:
            raise InvalidValue(f"{path!r} has index {index} where the array has {array.length} elements")
        type_ = array.type
        bit_offset += index * btf.size_of(type_) * 8
    return MemberAccess(path, type_, bit_offset, bit_size)
