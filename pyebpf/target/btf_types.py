"""BTF's types as `KernelType`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.btf import (
    Array,
    Composite,
    Const,
    Enumeration,
    Float,
    FuncProto,
    Fwd,
    Int,
    Ptr,
    Restrict,
    Struct,
    Typedef,
    TypeTag,
    Void,
    Volatile,
)
from pyebpf.errors import BtfError
from pyebpf.target.facts import KernelType

if TYPE_CHECKING:
    from pyebpf.btf import Btf, Node
    from pyebpf.target.facts import TypeKind

POINTER_SIZE = 8
# Pointers to pointers and arrays of arrays: the kernel stops at three.
MAX_NESTING = 16
MAX_MODIFIERS = 64


def convert(btf: Btf, type_id: int, module: str = "", nesting: int = MAX_NESTING) -> KernelType:
    """Describe a type of `btf`, which is `module`'s. Raises BtfError for one that goes in circles or is not a type."""
    aliases: list[str] = []
    tags: list[str] = []
    for _ in range(MAX_MODIFIERS):
        node = btf.type_by_id(type_id)
        if isinstance(node, Typedef):
            aliases.append(node.name)
        elif isinstance(node, TypeTag):
            tags.append(node.name)
        elif not isinstance(node, Const | Volatile | Restrict):
            return _describe(btf, node, module, nesting, tuple(aliases), tuple(tags))
        type_id = node.type
    raise BtfError(f"BTF's type {type_id} refers to itself")


def _describe(
    btf: Btf, node: Node, module: str, nesting: int, aliases: tuple[str, ...], tags: tuple[str, ...]
) -> KernelType:
    if not nesting:
        raise BtfError(f"BTF's type {node.id} is a pointer or array of itself")
    # A module's types may refer to vmlinux's, which have lower ids.
    home = module if node.id >= btf.start else ""
    match node:
        case Void():
            return KernelType("void", 0, "void", aliases=aliases, tags=tags)
        case Int():
            return KernelType("int", node.size, node.name, node.signed, aliases=aliases, tags=tags)
        case Float():
            return KernelType("float", node.size, node.name, signed=True, aliases=aliases, tags=tags)
        case Ptr():
            element = convert(btf, node.type, module, nesting - 1)
            return KernelType("pointer", POINTER_SIZE, element=element, aliases=aliases, tags=tags)
        case Array():
            element = convert(btf, node.type, module, nesting - 1)
            size = element.size * node.length
            return KernelType("array", size, element=element, length=node.length, aliases=aliases, tags=tags)
        case Composite():
            composite: TypeKind = "struct" if isinstance(node, Struct) else "union"
            return KernelType(composite, node.size, node.name, id=node.id, module=home, aliases=aliases, tags=tags)
        case Fwd():
            declared: TypeKind = "union" if node.union else "struct"
            return KernelType(declared, 0, node.name, id=node.id, module=home, aliases=aliases, tags=tags)
        case Enumeration():
            return KernelType(
                "enum", node.size, node.name, node.signed, id=node.id, module=home, aliases=aliases, tags=tags
            )
        case FuncProto():
            return KernelType("function", 0, id=node.id, module=home, aliases=aliases, tags=tags)
        case _:
            raise BtfError(f"BTF's type {node.id} ({type(node).__name__} {node.name!r}) is not a C type")
