"""Types as C writes them, for messages and listings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.btf.nodes import (
    MAX_DEPTH,
    Array,
    Composite,
    Const,
    Enumeration,
    Func,
    FuncProto,
    Fwd,
    Node,
    Ptr,
    Restrict,
    Struct,
    TypeTag,
    Var,
    Volatile,
)
from pyebpf.errors import BtfError

if TYPE_CHECKING:
    from pyebpf.btf.reader import Btf

# A prototype's parameters may be pointers to functions in turn; no kernel function comes near these.
MAX_NESTING = 8
MAX_TYPES = 1000
QUALIFIERS: dict[type[Node], str] = {Const: "const", Volatile: "volatile", Restrict: "restrict"}


def c_declaration(btf: Btf, type_id: int, name: str = "") -> str:
    """Declare `name` as of that type: `char *names[4]`; without a name the type alone. Raises BtfError."""
    node = btf.type_by_id(type_id)
    if isinstance(node, Func | Var):
        type_id, name = node.type, node.name
    return _declare(btf, type_id, name, [MAX_TYPES])


def c_definition(btf: Btf, type_id: int) -> str:
    """Define a struct, union or enum, a line a member with its offset; anything else is declared. Raises BtfError."""
    node = btf.type_by_id(type_id)
    if isinstance(node, Composite):
        lines = []
        for member in node.members:
            width = f" : {member.bit_size}" if member.bit_size else ""
            declared = _declare(btf, member.type, member.name, [MAX_TYPES])
            lines.append(f"    {declared + width + ';':<48} /* {_place(member.bit_offset)} */")
        body = "\n".join(lines)
        return f"{_tag(node)} {{\n{body}\n}};  /* {node.size} bytes */"
    if isinstance(node, Enumeration):
        body = "\n".join(f"    {each.name} = {each.value}," for each in node.enumerators)
        return f"{_tag(node)} {{\n{body}\n}};"
    return f"{c_declaration(btf, type_id)};"


def _place(bit_offset: int) -> str:
    return f"{bit_offset // 8}" + (f" bit {bit_offset % 8}" if bit_offset % 8 else "")


def _tag(node: Node) -> str:
    if isinstance(node, Composite):
        word = "struct" if isinstance(node, Struct) else "union"
    elif isinstance(node, Fwd):
        word = "union" if node.union else "struct"
    elif isinstance(node, Enumeration):
        word = "enum"
    else:
        return node.name
    return f"{word} {node.name or '(anonymous)'}"


def _declare(btf: Btf, type_id: int, inner: str, left: list[int], nesting: int = 0) -> str:
    """C reads declarations from the name outwards, so each pointer, array and prototype wraps what is there.

    `left[0]` counts down the types that may still be looked at.
    """
    prefix: list[str] = []
    for _ in range(MAX_DEPTH):
        left[0] -= 1
        node = btf.type_by_id(type_id)
        if isinstance(node, Ptr):
            inner = f"*{inner}"
        elif isinstance(node, Array):
            inner = f"{_group(inner)}[{node.length or ''}]"
        elif isinstance(node, FuncProto):
            if nesting == MAX_NESTING or left[0] < 0:
                raise BtfError(f"BTF nests prototypes without end at type {type_id}")
            params = [
                "..." if param == ("", 0) else _declare(btf, param.type, param.name, left, nesting + 1)
                for param in node.params
            ]
            inner = f"{_group(inner)}({', '.join(params) or 'void'})"
        elif type(node) in QUALIFIERS:
            word = QUALIFIERS[type(node)]
            # A qualifier of a pointer stands behind its star, one of anything else in front of it all.
            if isinstance(btf.type_by_id(btf.skip_modifiers(type_id)), Ptr):
                inner = f" {word} {inner}".rstrip()
            else:
                prefix.append(word)
        elif not isinstance(node, TypeTag):
            text = " ".join([*prefix, _tag(node)])
            return f"{text} {inner.strip()}" if inner else text
        type_id = node.type  # type: ignore[attr-defined]  # what is left refers to another type
    raise BtfError(f"BTF's type {type_id} refers to itself")


def _group(inner: str) -> str:
    return f"({inner})" if inner.startswith("*") else inner
