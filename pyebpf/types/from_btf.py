"""Python types of a map's keys and values, from BTF."""

from __future__ import annotations

import keyword
import types
from functools import cache
from typing import TYPE_CHECKING, Any

from pyebpf.btf import Array, Enumeration, Float, Int, Ptr, Struct as StructNode
from pyebpf.btf.nodes import Composite
from pyebpf.errors import MalformedData
from pyebpf.types.arrays import BytesType, ForeignCharArray, array_of
from pyebpf.types.enums import EnumType
from pyebpf.types.integers import BOOL, INTEGERS, U8, U64, IntType
from pyebpf.types.numbers import FLOATS, S128, U128
from pyebpf.types.structs import MISSING, FieldSpec, Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyebpf.btf import Btf, Node
    from pyebpf.types.base import Type

_MAX_SIZE = 1 << 20  # bytes of a key or value, far more than any kernel takes


class _Opaque(BytesType):
    """The bytes of a member that Python has no layout for, where C puts it."""

    def __init__(self, size: int, align: int) -> None:
        super().__init__(size)
        self.align = align


@cache
def _integers() -> Mapping[tuple[int, bool], IntType]:
    plain = (kind for kind in INTEGERS.values() if not kind.big_endian and not kind.is_bool)
    return {(kind.size, kind.signed): kind for kind in plain}


def bytes_of(name: str, size: int) -> Type | None:
    """`size` plain bytes, None for none; `name` is the map's."""
    if size > _MAX_SIZE:
        raise MalformedData(f"map {name} has keys or values of {size} bytes")
    return array_of(U8, size) if size else None


def type_from_btf(btf: Btf, name: str, node: Node) -> Type:
    """The Python side of a key or value of map `name`.

    Integers, floating-point numbers and addresses are numbers, enumerations named numbers, char arrays strings,
    structures records with their members' names. Bytes are what Python has no layout for: unions, and structures that
    are packed or have bit-fields.
    """
    size = btf.size_of(node.id)
    made = bytes_of(name, size)
    if made is None:
        raise MalformedData(f"map {name}: a key or value of type {node.name or 'struct'} has no size")
    return _type(btf, node) or made


def _type(btf: Btf, node: Node) -> Type | None:
    """None for what has no type of its own but its bytes."""
    if isinstance(node, Int) and node.size == S128.size:
        return S128 if node.signed else U128
    if isinstance(node, Float):
        return FLOATS.get(node.size)
    if isinstance(node, Int):
        return BOOL if node.bool and node.size == 1 else _integers().get((node.size, node.signed))
    if isinstance(node, Enumeration):
        return _enumeration(node)
    if isinstance(node, Ptr):
        return U64
    if isinstance(node, Array) and node.length:
        element = btf.type_by_id(btf.resolve(node.type))
        if isinstance(element, Int) and element.size == 1 and element.name == "char":  # unsigned on arm64
            return ForeignCharArray(node.length)
        inner = _type(btf, element)
        return array_of(inner, node.length) if inner is not None else None
    return _record(btf, node) if isinstance(node, StructNode) else None


def _enumeration(node: Enumeration) -> Type | None:
    integer = _integers().get((node.size, node.signed))
    try:
        values = {each.name: each.value for each in node.enumerators}
        return EnumType(node.name or "enum", integer, values) if integer is not None and values else integer
    except (TypeError, ValueError):
        return integer  # a name that Python's enumerations keep for themselves


def _record(btf: Btf, node: StructNode) -> Type | None:
    declared: dict[str, Type] = {}
    names = {member.name for member in node.members}
    for member in node.members:
        found = btf.type_by_id(btf.resolve(member.type))
        # A union, or a structure, whose members are the outer one's in C, too.
        name = _python_name(member.name, names) if member.name else f"anonymous_{member.bit_offset // 8}"
        size = btf.size_of(found.id)
        kind = _type(btf, found) or (_Opaque(size, _alignment(btf, found)) if 0 < size <= _MAX_SIZE else None)
        if kind is None or member.bit_size or not name.isidentifier() or name in declared:
            return None
        declared[name] = kind
    annotations = dict.fromkeys(declared, int)
    members: dict[str, object] = {name: FieldSpec(kind, MISSING) for name, kind in declared.items()}
    made: Any = types.new_class(
        node.name or "Value", (Struct,), exec_body=lambda body: body.update(__annotations__=annotations, **members)
    )
    layout: Type = made.layout
    places = [8 * f.offset for f in made.layout.fields]
    same = layout.size == node.size and places == [member.bit_offset for member in node.members]
    return layout if same and places else None


def _python_name(name: str, others: Collection[str]) -> str:
    """A member's name as an attribute of a Struct: `from_` for what Python or Struct has, `__pad__` for `__pad`.

    Python makes another name of one that begins with two underscores and does not end with two.
    """
    found = name if not name.startswith("__") or name.endswith("__") else f"{name}__"
    while (
        keyword.iskeyword(found) or found == "layout" or hasattr(Struct, found) or (found != name and found in others)
    ):
        found += "_"
    return found


def _alignment(btf: Btf, node: Node) -> int:
    """C's natural alignment."""
    if isinstance(node, Array):
        return _alignment(btf, btf.type_by_id(btf.resolve(node.type)))
    if isinstance(node, Composite):
        parts = (_alignment(btf, btf.type_by_id(btf.resolve(member.type))) for member in node.members)
        return max(parts, default=1)
    return min(btf.size_of(node.id), 16) or 1
