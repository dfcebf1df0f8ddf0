"""Definitions of structs, unions and enums as libbpf writes them, types without a name where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.btf.nodes import Composite, Enumeration
from pyebpf.btf.printer import c_declaration

if TYPE_CHECKING:
    from pyebpf.btf.nodes import Member
    from pyebpf.btf.reader import Btf

_ANONYMOUS = "(anonymous)"


def c_dump(btf: Btf, type_id: int, level: int = 0) -> str:
    """A definition, without the semicolon behind it. Padding and attributes are left out. Raises BtfError."""
    node = btf.type_by_id(type_id)
    word = c_declaration(btf, type_id).removesuffix(_ANONYMOUS).rstrip()
    indent = "\t" * (level + 1)
    lines: list[str] = []
    if isinstance(node, Composite):
        lines = [f"{indent}{_member(btf, each, level + 1)};" for each in node.members]
    elif isinstance(node, Enumeration):
        lines = [f"{indent}{each.name} = {each.value}," for each in node.enumerators]
    if not lines:
        return f"{word} {{}}"
    return "\n".join([f"{word} {{", *lines, "\t" * level + "}"])


def _member(btf: Btf, member: Member, level: int) -> str:
    text = c_declaration(btf, member.type, member.name).replace("[]", "[0]")
    if _ANONYMOUS in text:
        word = text[: text.index(_ANONYMOUS)].split()[-1]
        base = _anonymous(btf, member.type)
        if base is not None:
            text = text.replace(f"{word} {_ANONYMOUS}", c_dump(btf, base, level), 1)
    return f"{text}: {member.bit_size}" if member.bit_size else text


def _anonymous(btf: Btf, type_id: int) -> int | None:
    """The type without a name that a member's type is made of; None where a prototype has it."""
    while True:
        node = btf.type_by_id(type_id)
        if isinstance(node, Composite | Enumeration):
            return type_id
        type_id = getattr(node, "type", 0)
        if not type_id:
            return None
