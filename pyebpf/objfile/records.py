"""Python types of an object's keys and values, from its BTF."""

from __future__ import annotations

import keyword
import types
from functools import cache
from typing import TYPE_CHECKING, Any

from pyebpf.btf import Array, Enumeration, Int, Ptr, Struct as StructNode
from pyebpf.errors import MalformedData, PyebpfError
from pyebpf.types import INTEGERS, U8, U64, CharArray, IntType, Struct, array_of
from pyebpf.types.structs import MISSING, FieldSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.btf import Btf, Node
    from pyebpf.types import Type

__all__ = ["bytes_of", "type_from_btf"]

_MOST = 1 << 20  # bytes of a key or value, far more than any kernel takes


@cache
def _integers() -> Mapping[tuple[int, bool], IntType]:
    plain = (kind for kind in INTEGERS.values() if not kind.big_endian and not kind.is_bool)
    return {(kind.size, kind.signed): kind for kind in plain}


def bytes_of(name: str, size: int) -> Type | None:
    """`size` plain bytes, None for none; `name` is the map's."""
    if size > _MOST:
        raise MalformedData(f"map {name} has keys or values of {size} bytes")
    return array_of(U8, size) if size else None


def type_from_btf(btf: Btf, name: str, node: Node) -> Type:
    """The Python side of a key or value of map `name`.

    Integers, enumerations and addresses are numbers, char arrays strings, structures records with their members' names.
    What Python has no layout for (unions, bit-fields, packed members, members without a name) is bytes.
    """
    size = btf.size_of(node.id)
    made = bytes_of(name, size)
    if made is None:
        raise MalformedData(f"map {name}: a key or value of type {node.name or 'struct'} has no size")
    return _type(btf, node) or made


def _type(btf: Btf, node: Node) -> Type | None:
    """None for what has no type of its own but its bytes."""
    if isinstance(node, Int | Enumeration):
        return _integers().get((node.size, node.signed))
    if isinstance(node, Ptr):
        return U64
    if isinstance(node, Array) and node.length:
        element = btf.type_by_id(btf.resolve(node.type))
        if isinstance(element, Int) and element.size == 1:
            return CharArray(node.length) if element.signed else array_of(U8, node.length)
        inner = _type(btf, element)
        return array_of(inner, node.length) if inner is not None else None
    return _record(btf, node) if isinstance(node, StructNode) else None


def _record(btf: Btf, node: StructNode) -> Type | None:
    declared = {}
    for member in node.members:
        kind = _type(btf, btf.type_by_id(btf.resolve(member.type)))
        plain = member.name.isidentifier() and not keyword.iskeyword(member.name)
        if kind is None or member.bit_size or not plain or member.name in declared:
            return None
        declared[member.name] = kind
    annotations = dict.fromkeys(declared, int)
    members: dict[str, Any] = {name: FieldSpec(kind, MISSING) for name, kind in declared.items()}
    try:
        made: Any = types.new_class(
            node.name or "Value", (Struct,), exec_body=lambda body: body.update(__annotations__=annotations, **members)
        )
    except PyebpfError:
        return None  # a name that records keep for themselves
    layout: Type = made.layout
    places = [(f.name, 8 * f.offset) for f in made.layout.fields]
    same = layout.size == node.size and places == [(member.name, member.bit_offset) for member in node.members]
    return layout if same and places else None
