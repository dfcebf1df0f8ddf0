"""CO-RE: what clang recorded about types and members, filled in from the BTF of the kernel to load into.

A record names a type of the object, a path into it ("0:1:2": array index, then members and elements by number) and a
question (enum bpf_core_relo_kind). The path is turned into names and looked up in the kernel's type of the same name,
less a `___flavour`. What the kernel does not have becomes a call that no verifier takes, as in libbpf: code that asked
whether it is there does not come to it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pyebpf.asm import Form, Instruction, find_op
from pyebpf.btf import Array, Btf, Composite, Enum, Enum64, Enumeration, Int, Kind, Node, Ptr, Struct, Typedef, Union
from pyebpf.dataclass import replace
from pyebpf.errors import BtfError, InvalidValue, MalformedData, NotFound
from pyebpf.objfile.matching import types_match

# enum bpf_core_relo_kind
_OFFSET, _SIZE, _EXISTS, _SIGNED, _LEFT_SHIFT, _RIGHT_SHIFT = range(6)
LOCAL_TYPE, _TARGET_TYPE, _TYPE_EXISTS, _TYPE_SIZE, _ENUM_EXISTS, _ENUM_VALUE, _TYPE_MATCHES = range(6, 13)
_FIELD_KINDS = range(6)
_WORDS = (
    *("byte_off", "byte_sz", "field_exists", "signed", "lshift_u64", "rshift_u64", "local_type_id", "target_type_id"),
    *("type_exists", "type_size", "enumval_exists", "enumval_value", "type_matches"),
)
_POISON = 195896080  # libbpf's, known from verifier logs
_LETTERS = {1: "b", 2: "h", 4: "w", 8: "dw"}
_PLAIN_LOADS = tuple(f"ldx{letter}" for letter in _LETTERS.values())
_ACCESS = re.compile(r"\d{1,9}(?::\d{1,9})*", re.ASCII)
_KINDS: dict[type[Node], Kind] = {
    Struct: Kind.STRUCT,
    Union: Kind.UNION,
    Typedef: Kind.TYPEDEF,
    Enum: Kind.ENUM,
    Enum64: Kind.ENUM64,
}


class CoreRelocation(NamedTuple):
    """struct bpf_core_relo: the question `kind` about `access` in the object's type `type`."""

    offset: int
    type: int
    access: str
    kind: int


class _Field(NamedTuple):
    """Where a member lies: the bytes to load, and the bits of it among them."""

    byte_offset: int
    byte_size: int
    bit_offset: int
    bit_size: int
    type: int


def describe(record: CoreRelocation, btf: Btf) -> str:
    """A question in a line: `CO-RE byte_off job.in.x`, by the names that the kernel gives to the kinds."""
    kind = _WORDS[record.kind] if record.kind < len(_WORDS) else str(record.kind)
    name, _ = _name(btf, record.type)
    try:
        if record.kind in _FIELD_KINDS and _ACCESS.fullmatch(record.access):
            indices = [int(index) for index in record.access.split(":")]
            path = _path(btf, record.type, indices[1:], "")
            element = "" if indices[0] == 0 else f"[{indices[0]}]"
            return f"CO-RE {kind} {name}{element}{'.' if path[:1] not in ('', '[') else ''}{path}"
        if record.kind in (_ENUM_EXISTS, _ENUM_VALUE) and record.access.isdecimal():
            return f"CO-RE {kind} {name}.{_local_enumerator(btf, record.type, int(record.access), '')}"
        if record.access == "0":
            return f"CO-RE {kind} {name}"
    except MalformedData:
        pass
    return f"CO-RE {kind} {name} {record.access}"


def apply(item: Instruction, record: CoreRelocation, btf: Btf, kernel: Btf, place: str) -> list[Instruction]:
    """The instruction with the answer in it. MalformedData for a question or an instruction that is not known here."""
    if not _ACCESS.fullmatch(record.access):
        raise MalformedData(f"{place}: {record.access!r} is not a path of a CO-RE relocation")
    indices = [int(index) for index in record.access.split(":")]
    if record.kind in _FIELD_KINDS:
        path = _path(btf, record.type, indices[1:], place)
        field = _find_field(kernel, btf, record.type, indices[0], path)
        if field is None:
            return [replace(item, imm=0)] if record.kind == _EXISTS else _poisoned(item)
        if record.kind == _OFFSET and item.op.form in (Form.LOAD, Form.STORE, Form.STORE_IMM):
            local = _field_in(btf, record.type, indices[0], path) or field
            types = (btf, local.type), (kernel, field.type)
            as_good = all(_zero_extended(*each) for each in types)
            return [_access(item, local, field, path, place, as_good=as_good)]
        return [_constant(item, _answer(record.kind, field, kernel), place)]
    if record.kind == LOCAL_TYPE:
        return [_constant(item, record.type, place)]
    if record.kind in (_ENUM_EXISTS, _ENUM_VALUE):
        value = _enumerator(btf, kernel, record.type, indices[0], place)
        if record.kind == _ENUM_EXISTS:
            return [_constant(item, int(value is not None), place)]
        return [_constant(item, value, place)] if value is not None else _poisoned(item)
    if record.kind in (_TARGET_TYPE, _TYPE_EXISTS, _TYPE_SIZE):
        candidates = _candidates(kernel, btf, record.type)
        if record.kind == _TYPE_EXISTS:
            return [_constant(item, int(bool(candidates)), place)]
        if not candidates:
            return _poisoned(item)
        found = candidates[0]
        return [_constant(item, found if record.kind == _TARGET_TYPE else kernel.size_of(found), place)]
    if record.kind == _TYPE_MATCHES:
        matches = any(types_match(btf, record.type, kernel, each) for each in _candidates(kernel, btf, record.type))
        return [_constant(item, int(matches), place)]
    raise MalformedData(f"{place}: a CO-RE relocation of kind {record.kind}, which is not known here")


def _path(btf: Btf, type_id: int, indices: list[int], place: str) -> str:
    """`1:2` as member names and elements: `b[2]`; anonymous members have no part in it."""
    path = ""
    for index in indices:
        node = btf.type_by_id(btf.resolve(type_id))
        if isinstance(node, Array):
            path, type_id = f"{path}[{index}]", node.type
        elif isinstance(node, Composite) and index < len(node.members):
            member = node.members[index]
            if member.name:
                path = f"{path}.{member.name}" if path else member.name
            type_id = member.type
        else:
            raise MalformedData(f"{place}: a CO-RE relocation's path leads to nothing in type {node.name or node.id}")
    return path


def _name(btf: Btf, type_id: int) -> tuple[str, Kind | None]:
    """The name to look for, without flavour, and the kind of type that has it."""
    node = btf.type_by_id(btf.skip_modifiers(type_id))
    if isinstance(node, Typedef) and not node.name:
        node = btf.type_by_id(btf.resolve(type_id))
    return node.name.partition("___")[0], _KINDS.get(type(node))


def _candidates(kernel: Btf, btf: Btf, type_id: int) -> list[int]:
    name, kind = _name(btf, type_id)
    if not name:
        return []
    enums = (Kind.ENUM, Kind.ENUM64)
    return kernel.find(name, enums if kind in enums else (kind,) if kind is not None else None)


def _find_field(kernel: Btf, btf: Btf, type_id: int, index: int, path: str) -> _Field | None:
    """The member in the first of the kernel's types of that name that has it."""
    for candidate in _candidates(kernel, btf, type_id):
        field = _field_in(kernel, candidate, index, path)
        if field is not None:
            return field
    return None


def _field_in(btf: Btf, type_id: int, index: int, path: str) -> _Field | None:
    """The member at a path of a type, in element `index` of an array of such; None if the type has none."""
    whole = btf.size_of(type_id)
    start = index * whole * 8
    if not path:
        return _Field(start // 8, whole, start, whole * 8, type_id)
    try:
        found = btf.resolve_path(type_id, path)
    except (NotFound, InvalidValue):
        return None
    size, bit_offset = btf.size_of(found.type), start + found.bit_offset
    if not found.bit_size:
        return _Field(bit_offset // 8, size, bit_offset, size * 8, found.type)
    if not size:
        raise BtfError(f"BTF has the bit-field {path!r} of no size")
    # The naturally aligned bytes that hold all its bits: more of them than its type has, where it straddles two.
    offset = bit_offset // 8 // size * size
    while bit_offset + found.bit_size - offset * 8 > size * 8 and size < 8:
        size *= 2
        offset = bit_offset // 8 // size * size
    return _Field(offset, size, bit_offset, found.bit_size, found.type)


def _answer(kind: int, field: _Field, kernel: Btf) -> int:
    if kind == _OFFSET:
        return field.byte_offset
    if kind == _SIZE:
        return field.byte_size
    if kind == _EXISTS:
        return 1
    if kind == _SIGNED:
        node = kernel.type_by_id(kernel.resolve(field.type))
        return int(isinstance(node, Int | Enumeration) and node.signed)
    if kind == _RIGHT_SHIFT:
        return 64 - field.bit_size
    first = field.bit_offset - field.byte_offset * 8
    if kernel.byteorder == "little":
        return 64 - (first + field.bit_size)
    return (8 - field.byte_size) * 8 + first


def _zero_extended(btf: Btf, type_id: int) -> bool:
    """Whether a value is as good wider or narrower: a pointer, or an integer without sign."""
    node = btf.type_by_id(btf.resolve(type_id))
    return isinstance(node, Ptr) or (isinstance(node, Int) and not node.signed)


def _access(item: Instruction, local: _Field, field: _Field, path: str, place: str, *, as_good: bool) -> Instruction:
    """A load or store of a member where the kernel has it, as wide as it is there."""
    op = item.op
    if not -0x8000 <= field.byte_offset <= 0x7FFF:
        raise MalformedData(f"{place}: {path} lies {field.byte_offset} bytes in, farther than an instruction reaches")
    if field.byte_size != local.byte_size:
        whole = op.name in _PLAIN_LOADS and op.size == local.byte_size
        if not as_good or not whole or field.byte_size not in _LETTERS:
            sizes = f"{field.byte_size} bytes in the kernel, and {local.byte_size}"
            raise MalformedData(f"{place}: {path} has {sizes} where this was compiled")
        op = find_op("ldx" + _LETTERS[field.byte_size], Form.LOAD)
    return replace(item, op=op, offset=field.byte_offset)


def _constant(item: Instruction, value: int, place: str) -> Instruction:
    if item.op.form is Form.DST_IMM:
        if not -(1 << 31) <= value < 1 << 32:
            raise MalformedData(f"{place}: {value} does not fit the constant that CO-RE fills in")
        return replace(item, imm=value - (1 << 32) if value >> 31 == 1 else value)
    if item.op.form is Form.LDDW:
        return replace(item, imm=value)
    raise MalformedData(f"{place}: a CO-RE relocation of `{item.op.name}`, which has nothing to fill in")


def _local_enumerator(btf: Btf, type_id: int, index: int, place: str) -> str:
    """Its name in the object, without flavour."""
    node = btf.type_by_id(btf.resolve(type_id))
    if not isinstance(node, Enum | Enum64) or index >= len(node.enumerators):
        raise MalformedData(f"{place}: a CO-RE relocation of an enumerator that does not exist")
    return node.enumerators[index].name.partition("___")[0]


def _enumerator(btf: Btf, kernel: Btf, type_id: int, index: int, place: str) -> int | None:
    name = _local_enumerator(btf, type_id, index, place)
    for candidate in _candidates(kernel, btf, type_id):
        found = kernel.type_by_id(kernel.resolve(candidate))
        if isinstance(found, Enumeration):
            for each in found.enumerators:
                if each.name == name:
                    return each.value
    return None


def _poisoned(item: Instruction) -> list[Instruction]:
    return [Instruction(find_op("call", Form.CALL), imm=_POISON, where=item.where)] * item.slots
