"""Structs that a script defines, laid out as C lays them out on a 64-bit machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.dataclass import dataclass
from pyebpf.errors import NotFound, closest_or_all
from pyebpf.target import KernelType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace.source import Source
    from pyebpf.target import Target


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct or union: its type, whose `id` is below 0 and its own, its alignment, and members by name."""

    type: KernelType
    align: int
    members: dict[str, tuple[int, KernelType]]


def _aligned(node: ast.Struct) -> int:
    """The least alignment of a struct, by `__attribute__((aligned(n)))`."""
    found = [re.fullmatch(r"aligned\s*\(\s*(\d+)\s*\)", each) for each in node.attributes]
    return max([1, *(int(each[1]) for each in found if each is not None)])


class Structs:
    """A script's structs. Those between `#ifndef` and `#endif` stand in for the kernel's, and are left out."""

    def __init__(self, program: ast.Program) -> None:
        self._source: Source = program.source
        self._nodes: dict[str, ast.Struct] = {}
        self._layouts: dict[str, Layout] = {}
        depth = 0
        for each in program.definitions:
            if isinstance(each, ast.Directive):
                depth += each.word.startswith("if") - (each.word == "endif")
            elif isinstance(each, ast.Struct) and not depth:
                self._nodes[each.name] = each

    def find(self, target: Target, name: str) -> Layout | None:
        """The layout of a struct; None for one that the script does not define. Raises CompileError."""
        if name not in self._layouts:
            node = self._nodes.get(name)
            if node is None:
                return None
            self._layouts[name] = self._laid_out(target, node, name, -1 - len(self._layouts))
        return self._layouts[name]

    def member(self, type_: KernelType, name: str, node: ast.Node) -> tuple[int, KernelType]:
        """The offset and the type of a member of a type with such an id."""
        found = self._layouts[type_.name].members.get(name)
        if found is None:
            raise self._source.error(
                f"{type_.c_name} has no member {name}{closest_or_all(name, self._layouts[type_.name].members)}", node
            )
        return found

    def offset(self, type_: KernelType, path: Sequence[str], node: ast.Node) -> int:
        """The offset of a member of members, all in structs that the script defines."""
        offset = 0
        for name in path:
            if type_.name not in self._layouts:
                raise self._source.error("offsetof() goes only through structs that the script defines, here", node)
            distance, type_ = self.member(type_, name, node)
            offset += distance
        return offset

    def _laid_out(self, target: Target, node: ast.Struct, name: str, number: int) -> Layout:
        members: dict[str, tuple[int, KernelType]] = {}
        offset = size = 0
        alignment, packed = _aligned(node), "packed" in node.attributes
        for each in node.members:
            if each.bits is not None:
                raise self._source.error("bit-fields are not supported yet in structs", each)
            type_, align = self._nested(target, each.type) or self._type(target, each.type)
            if packed:
                align = 1
            if not align:
                # A struct of the kernel's: BTF tells no alignment, and any fits a multiple of 8.
                if offset % 8:
                    raise self._source.error(
                        f"the alignment of {type_.c_name} is not known: put it at a multiple of 8 bytes", each
                    )
                align = 1 if type_.size % 8 else 8
            offset = 0 if node.keyword == "union" else -(-offset // align) * align
            if each.name:
                members[each.name] = offset, type_
            else:  # members of a nested struct without a name are those of the outer one
                members |= {name: (offset + at, of) for name, (at, of) in self._layouts[type_.name].members.items()}
            offset += type_.size
            size, alignment = max(size, offset), max(alignment, align)
        made = KernelType(node.keyword, -(-size // alignment) * alignment, name, id=number)
        return Layout(made, alignment, members)

    def _nested(self, target: Target, node: ast.Type | ast.Struct | ast.Enum) -> tuple[KernelType, int] | None:
        """The type of a member that is defined right there, and its alignment; None if it is not."""
        if not isinstance(node, ast.Struct):
            return None
        name = node.name or f"({node.keyword} at {node.start})"
        made = self._layouts[name] = self._laid_out(target, node, name, -1 - len(self._layouts))
        return made.type, made.align

    def _type(self, target: Target, node: ast.Type | ast.Struct | ast.Enum) -> tuple[KernelType, int]:
        """A member's type, and its alignment; 0 if that is not known."""
        from pyebpf.bpftrace.translate.casts import NUMBERS

        if isinstance(node, ast.PointerType):
            if isinstance(node.target, ast.FunctionType):
                return KernelType("pointer", 8, element=KernelType("void", 0, "void")), 8
            return KernelType("pointer", 8, element=self._pointed(target, node.target)), 8
        if isinstance(node, ast.ArrayType):
            element, align = self._type(target, node.element)
            length = node.size.value if isinstance(node.size, ast.Integer) else 0
            if node.size is not None and not isinstance(node.size, ast.Integer):
                raise self._source.error("the length of this array is to be a number", node)
            return KernelType("array", element.size * length, element=element, length=length), align
        if isinstance(node, ast.Enum) or (isinstance(node, ast.TypeName) and node.keyword == "enum"):
            return KernelType("int", 4, "unsigned int"), 4
        if not isinstance(node, ast.TypeName):
            raise self._source.error("a member of this type is not supported yet", node)
        if not node.keyword and node.name in NUMBERS:
            number = NUMBERS[node.name]
            return KernelType("int", number.size, node.name, signed=number.signed), number.size
        own = self.find(target, node.name) if node.keyword in ("struct", "union") else None
        if own is not None:
            return own.type, own.align
        try:
            found = target.type_named(f"{node.keyword} {node.name}".strip())
        except NotFound as error:
            raise self._source.error(str(error), node) from None
        return found, 0 if found.composite or found.kind == "array" else found.size

    def _pointed(self, target: Target, node: ast.Type) -> KernelType:
        """A pointer's target; one that nothing is known of is void."""
        if isinstance(node, ast.TypeName) and node.name == "void":
            return KernelType("void", 0, "void")
        if isinstance(node, ast.TypeName) and node.keyword and node.name in self._nodes:
            found = self._layouts.get(node.name)
            return found.type if found is not None else KernelType("void", 0, "void")
        try:
            return self._type(target, node)[0]
        except NotFound:
            return KernelType("void", 0, "void")
