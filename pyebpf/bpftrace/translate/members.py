"""Members of structs, and whole structs: a value that is kept or printed is a copy, member by member.

A struct that has too many members, or such as scripts keep no values of, is held by its address.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate import arithmetic, arrays, casts, type_names
from pyebpf.bpftrace.translate.enums import kernel_name, of_kernel
from pyebpf.bpftrace.translate.type_names import MAX_BYTES
from pyebpf.bpftrace.translate.values import (
    Condition,
    Elements,
    Embedded,
    Group,
    Integer,
    Reference,
    Row,
    Special,
    Unknown,
    constant,
    target_of,
)
from pyebpf.bpftrace.value_types import Record, UnkeptStruct, Unread
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_numbers import as_number
from pyebpf.builder.values.kernel_objects import CharacterArray, KernelArray, integer_type, value_at
from pyebpf.builder.values.memory import Space, at_offset, probe_read, probe_read_value
from pyebpf.compiler.ir import Op
from pyebpf.dataclass import replace
from pyebpf.errors import NotFound, closest_or_all
from pyebpf.types import U8, U64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.structs import Member
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import Number
    from pyebpf.builder.values.kernel_objects import KernelReference
    from pyebpf.compiler import ir
    from pyebpf.target import KernelType

#: Numbers, pointers, arrays and texts of a struct that is copied, at most.
MAX_MEMBERS = 48


def field(s: Scope, node: ast.FieldAccess) -> Value:
    """`value.name`, `value->name`."""
    from pyebpf.bpftrace.translate.expressions import dereferenced, evaluate

    if isinstance(node.value, ast.Identifier) and node.value.name in ("args", "ctx"):
        from pyebpf.bpftrace.translate.builtins import argument

        return argument(s, node.name, node)
    value = evaluate(s, node.value)
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Reference) and isinstance(value.type.held, Record):
        value = dereferenced(s, value, node)
    if isinstance(value, Group) and value.names:
        if node.name not in value.names:
            raise s.error(f"this record has no field {node.name}{closest_or_all(node.name, value.names)}", node)
        return value.elements[value.names.index(node.name)]
    return _member(s, value, node.name, node)


def _member(s: Scope, value: Value, name: str, node: ast.Node) -> Value:
    """A member of a struct, by its name."""
    from pyebpf.bpftrace.translate.expressions import wrapped

    entity: Any = target_of(value) if isinstance(value, Reference) else None
    if isinstance(value, Embedded):
        entity = value.entity
    if entity is None or isinstance(entity, KernelArray):
        raise s.error(f"this is {value.type.name}, which has no field {name}: cast it to a struct", node)
    if entity.type.id < 0:
        member = s.script.structs.member(entity.type, name, node)
        place = entity.offset + member.offset
        if member.bits:
            value = _bits(s, entity, place, member)
            if member.type.boolean:
                return Condition(arithmetic.is_set(s.p, value.value))
        else:
            found = value_at(s.p, entity.address, place, member.type, trusted=False, space=entity.space)
            value = wrapped(s, found, node)
        if member.type.kind == "enum" and isinstance(value, Integer):
            return enumerated(s, value, member.type)
        return value
    found_value = wrapped(s, _as_text(s, entity.attribute(s.p, name)), node)
    if isinstance(found_value, Integer):
        found_member = s.p.target.member(entity.type, name)
        type_ = found_member.type
        if type_.kind == "enum":
            return of_kernel(found_value, kernel_name(type_))
        if found_member.bit_size:
            return Integer(found_value.value, signed=type_.signed, size=type_.size)
    return found_value


def _as_text(s: Scope, found: object) -> object:
    """A member of the kernel's; `unsigned char[n]` as the text that it mostly is, as with bpftrace, but not `u8[n]`."""
    if not isinstance(found, KernelArray):
        return found
    element, length = found.element, found.array_length
    if not length or element.aliases or (element.kind, element.name) != ("int", "unsigned char"):
        return found
    return CharacterArray(as_number(s.p, found.address), found.offset, found.space, length, length, s.p.b.where)


def _bits(s: Scope, entity: KernelReference, place: int, member: Member) -> Integer:
    """A bit-field: no bytes are read but its own, which are more than its type's in a packed struct."""
    b, signed = s.p.b, member.type.signed
    place, bit = place + member.bit // 8, member.bit % 8
    size = -(-(bit + member.bits) // 8)
    unit = _unsigned(s, entity, place, min(size, U64.size))
    if size > U64.size:
        rest = b.binary(Op.SHL, _unsigned(s, entity, place + U64.size, 1), b.const(64 - bit))
        unit, bit = b.binary(Op.OR, b.binary(Op.LSHR, unit, b.const(bit)), rest), 0
    up = b.binary(Op.SHL, unit, b.const(64 - bit - member.bits))
    down = b.binary(Op.ASHR if signed else Op.LSHR, up, b.const(64 - member.bits))
    return Integer(down, signed=signed, size=member.type.size)


def _unsigned(s: Scope, entity: KernelReference, place: int, size: int) -> ir.Value:
    """A number of up to 8 bytes of a struct."""
    p, b = s.p, s.p.b
    if size in (1, 2, 4, 8):
        return probe_read_value(p, entity.space, entity.address, place, size)
    address = b.slot_address(b.shared_slot("read"))
    b.store(address, 0, b.const(0), U64.size)
    probe_read(p, entity.space, address, size, at_offset(p, entity.address, place))
    return b.load(address, 0, U64.size)


def enumerated(s: Scope, value: Integer, type_: KernelType) -> Integer:
    """A number of an enum, which is printed by a name."""
    value.type = enum_number(s, value.type, type_)
    return value


def enum_number(s: Scope, number: Number, type_: KernelType) -> Number:
    """The type of numbers of an enum of the script's, of a probed file's, or of the kernel's."""
    if type_.id < 0:
        return replace(number, names=s.script.user_types.enumerators(type_))
    names = s.script.enums.of(type_.name)
    return replace(number, enum=kernel_name(type_)) if names is None else replace(number, names=names)


def kept(s: Scope, value: Value, node: ast.Node, *, large: bool = False) -> Value:
    """A value as it can be kept: of a struct or an array inside another a copy; with `large` of others the place."""
    if not isinstance(value, Embedded | Elements):
        return value
    row = row_of(s, value, node)
    if row is not None:
        return row
    if isinstance(value, Elements) or (isinstance(value.entity, KernelArray) and not large):
        raise s.error("an array of structs or floats is not kept: write an element, value[0], or buf(value)", node)
    entity = value.entity
    if isinstance(entity, KernelArray):
        type_ = arrays.c_type(entity)
    else:
        type_, copy = entity.type, copied(s, value, node)
        if copy is not None:
            return copy
        if not large:
            what, why = entity.describe(), why_not_copied(s, type_)
            raise s.error(f"{what} is not kept whole: write the members that you mean ({why})", node)
    return Special(UnkeptStruct(type_, entity.space), Int(value.address(s.p), U64))


def copied(s: Scope, value: Embedded, node: ast.Node) -> Group | None:
    """A struct as a record of its members; None for one that is held by its address."""
    if isinstance(value.entity, KernelArray):
        return None
    type_ = value.entity.type
    if not 0 < _count(s, type_, {}) <= MAX_MEMBERS:
        return None
    parts = _parts(s, type_)
    unread = Special(Unread(), Int(s.p.b.const(0), U8))
    members = [
        unread if part.kind == "float" else kept(s, _member(s, value, name, node), node) for name, part in parts.items()
    ]
    return Group(members, list(parts), type_.size)


def row_of(s: Scope, value: Value, node: ast.Node) -> Row | None:
    """A copy of an array, also of structs; None for one that is held by its address."""
    from pyebpf.bpftrace.translate.expressions import wrapped

    row = arrays.row_of(s, value, node)
    if row is not None or not isinstance(value, Embedded) or not isinstance(value.entity, KernelArray):
        return row
    array, type_ = value.entity, arrays.c_type(value.entity)
    count = _count(s, type_, {})
    if not 0 < count <= MAX_MEMBERS or type_.size + U64.size * count > MAX_BYTES:  # numbers have 64 bits each
        return None
    elements = [wrapped(s, array.item(s.p, number), node) for number in range(array.array_length or 0)]
    groups = [copied(s, each, node) if isinstance(each, Embedded) else None for each in elements]
    known = [each for each in groups if each is not None]
    return arrays.of_groups(s, known, node) if len(known) == len(elements) else None


def why_not_copied(s: Scope, type_: KernelType) -> str:
    """The reason for which a struct is not copied: its first member that is not, or that there are too many."""
    try:
        parts = _parts(s, type_)
    except NotFound:
        return "its members are not known"
    for name, part in parts.items():
        if _count(s, part, {}) > MAX_MEMBERS:
            return f"its member {name} is a {part.c_name}"
    return f"it has more than {MAX_MEMBERS} values" if parts else "it has no members"


def _parts(s: Scope, type_: KernelType) -> Mapping[str, KernelType]:
    """The members of a struct by name, those of members without names as its own."""
    if type_.id < 0:
        return {name: member.type for name, member in s.script.structs.members(type_).items()}
    names = s.p.target.members(type_)
    if "" in names:
        names = s.p.target.named_members(type_)
    return {name: s.p.target.member(type_, name).type for name in names}


def _count(s: Scope, type_: KernelType, known: dict[str, int]) -> int:
    """How many values a struct has; more than scripts keep where it has some that they keep no values of.

    `known` has the structs that were looked at: those that are not done yet contain themselves.
    """
    if type_.composite:
        if type_.key not in known:
            known[type_.key] = MAX_MEMBERS + 1
            if len(known) <= MAX_MEMBERS:
                with suppress(NotFound):
                    known[type_.key] = sum(_count(s, each, known) for each in _parts(s, type_).values())
        return known[type_.key]
    if type_.kind == "array":
        inner = type_.element
        if inner is not None and inner.composite:
            return _count(s, inner, known) * type_.length if type_.length else MAX_MEMBERS + 1
        is_kept = inner is not None and (inner.character or arrays.element_type(inner, Space.KERNEL) is not None)
        return 1 if is_kept and 0 < type_.size <= MAX_BYTES else MAX_MEMBERS + 1
    is_value = type_.kind in ("pointer", "float") or integer_type(type_) is not None
    return 1 if is_value else MAX_MEMBERS + 1


def offset_of(s: Scope, node: ast.OffsetOf) -> Value:
    """`offsetof(struct T, a.b)`."""
    operand = node.operand.operand if isinstance(node.operand, ast.TypeOf) else node.operand
    if isinstance(operand, ast.Expression):
        found = type_names.struct_of(s, operand)
        return Unknown(s.p) if found is None else constant(s.p, _offset(s, found, node))
    if not isinstance(operand, ast.TypeName):
        raise s.error("offsetof() takes a struct and a path of its members", node)
    type_ = casts.kernel_type(s, operand)
    if type_.id < 0:
        return constant(s.p, s.script.structs.offset(type_, node.path, node))
    try:
        return constant(s.p, s.p.target.struct_member(casts.c_name(operand), ".".join(node.path)).offset)
    except NotFound as error:
        raise s.error(str(error), node) from None


def _offset(s: Scope, type_: KernelType, node: ast.OffsetOf) -> int:
    """The offset of a member of members, in structs of the script's and of the kernel's."""
    offset = 0
    for name in node.path:
        if type_.id < 0:
            member: Any = s.script.structs.member(type_, name, node)
        else:
            try:
                member = s.p.target.member(type_, name)
            except NotFound as error:
                raise s.error(str(error), node) from None
        type_, offset = member.type, offset + member.offset
    return offset
