"""Structs that a script defines, laid out as C lays them out on a 64-bit machine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.c_numbers import c_number
from pyebpf.dataclass import dataclass
from pyebpf.errors import NotFound, closest_or_all
from pyebpf.target import KernelType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from pyebpf.bpftrace.source import Source
    from pyebpf.bpftrace.translate.enums import Enums
    from pyebpf.target import Target
    from pyebpf.target.facts import TypeKind
    from pyebpf.types import CharFactory, IntType

    Pointed: TypeAlias = KernelType | IntType | CharFactory | None


#: Types of numbers that probes do not read, and their bytes.
_FLOATS = {"float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct or union: its type, whose `id` is below 0 and its own, its alignment, and members by name."""

    type: KernelType
    align: int
    members: dict[str, Member]


@dataclass(frozen=True, slots=True)
class Member:
    """A member: its place in bytes and its type; of a bit-field also its first bit there, and how many it has."""

    offset: int
    type: KernelType
    bit: int = 0
    bits: int = 0

    def moved(self, distance: int) -> Member:
        """The same in a struct that the one that it is of stands in."""
        return Member(self.offset + distance, self.type, self.bit, self.bits)


#: The alignment of `__attribute__((aligned))`, on x86-64 and on arm64.
_GREATEST_ALIGNMENT = 16
#: Bytes of a struct or of an array at most: BTF and the compiler's numbers of 32 bits hold no more.
_MAX_SIZE = (1 << 31) - 1

#: The id of a struct of the script's that a pointer leads to.
_LATER = -(1 << 31)


def _rounded_up(bits: int, unit: int) -> int:
    return -(-bits // unit) * unit


def _name(node: ast.Struct) -> str:
    """The name that a struct is found by."""
    return node.name or f"({node.keyword} at {node.start})"


def _only_defines(node: ast.Member) -> bool:
    """Whether this defines a type and is no member: alone, only a struct without a name is one."""
    if node.name or node.bits is not None:
        return False
    return isinstance(node.type, ast.Enum) or (isinstance(node.type, ast.Struct) and bool(node.type.name))


class Structs:
    """A script's structs, those among them that others define within themselves."""

    def __init__(self, program: ast.Program, enums: Enums) -> None:
        self._source: Source = program.source
        self._enums = enums
        self._nodes: dict[str, ast.Struct] = {}
        self._layouts: dict[str, Layout] = {}
        #: The members of those of probed files, by their ids.
        self._foreign: dict[int, Callable[[], dict[str, Member]]] = {}
        self._open: set[str] = set()
        self._count = 0
        for each in ast.nodes(program.definitions):
            if isinstance(each, ast.Struct):
                # Of `struct { … } a, b;` the same stands in the tree twice.
                first = self._nodes.setdefault(_name(each), each)
                if first is not each:
                    raise self._source.error(f"there is a {first.keyword} {first.name} already", each)

    def find(self, target: Target, name: str) -> Layout | None:
        """The layout of a struct; None for one that the script does not define. Raises CompileError."""
        if name not in self._layouts:
            node = self._nodes.get(name)
            if node is None:
                return None
            if name in self._open:
                raise self._source.error(f"{node.keyword} {name} contains itself: let it have a pointer", node)
            self._open.add(name)
            try:
                self._layouts[name] = self._laid_out(target, node, name)
            finally:
                self._open.discard(name)
        return self._layouts[name]

    def resolved(self, target: Target, type_: Pointed) -> Pointed:
        """The target of a pointer, a struct of the script's with its size."""
        if not isinstance(type_, KernelType) or type_.id != _LATER:
            return type_
        found = self.find(target, type_.name)
        assert found is not None
        return found.type

    def add(self, kind: TypeKind, size: int, name: str, members: Callable[[], dict[str, Member]]) -> KernelType:
        """A struct of a probed file, whose members are read where one is asked for."""
        made = KernelType(kind, size, name, id=self.new_id())
        self._foreign[made.id] = cache(members)
        return made

    def members(self, type_: KernelType) -> dict[str, Member]:
        """The members of a type with such an id."""
        foreign = self._foreign.get(type_.id)
        return self._layouts[type_.name].members if foreign is None else foreign()

    def member(self, type_: KernelType, name: str, node: ast.Node) -> Member:
        """A member of a type with such an id."""
        members = self.members(type_)
        if name not in members:
            raise self._source.error(f"{type_.c_name} has no member {name}{closest_or_all(name, members)}", node)
        return members[name]

    def new_id(self) -> int:
        """An id for a type that is not the kernel's."""
        self._count += 1
        return -self._count

    def offset(self, type_: KernelType, path: Sequence[str], node: ast.Node) -> int:
        """The offset of a member of members, all in structs that the script defines."""
        offset = 0
        for name in path:
            if type_.id >= 0:
                raise self._source.error("offsetof() does not go on into a type of the kernel, here", node)
            member = self.member(type_, name, node)
            type_, offset = member.type, offset + member.offset
        return offset

    def _laid_out(self, target: Target, node: ast.Struct, name: str) -> Layout:
        number = self.new_id()
        members: dict[str, Member] = {}
        position = size = 0  # in bits
        alignment, all_packed = self._alignment(target, node), ast.is_packed(node)
        for each in node.members:
            if _only_defines(each):
                continue
            type_, align = self._type(target, each.type)
            packed, least = all_packed or ast.is_packed(each), self._alignment(target, each)
            if packed:
                align = 1
            if align or least > 1:
                align = max(align, least)
            else:
                # A struct of the kernel's: BTF tells no alignment, and any fits a multiple of 8.
                if position % 64:
                    raise self._source.error(
                        f"the alignment of {type_.c_name} is not known: put it at a multiple of 8 bytes", each
                    )
                align = 1 if type_.size % 8 else 8
            if node.keyword == "union":
                position = 0
            if each.bits is not None:
                bits = self._number(target, each.bits, "the width of a bit-field")
                if least > 1:
                    position = _rounded_up(position, 8 * least)
                found, position = self._bit_field(each, bits, type_, position, packed=packed)
            else:
                position = _rounded_up(position, 8 * align)
                found = Member(position // 8, type_)
                position += 8 * type_.size
            here = {}
            if each.name:
                here[each.name] = found
            elif each.bits is None:  # members of a nested struct without a name are those of the outer one
                inner = self.members(type_)
                here = {key: member.moved(found.offset) for key, member in inner.items()}
            for twice in here.keys() & members.keys():
                raise self._source.error(f"there is a member {twice} already", each)
            members |= here
            size = max(size, position)
            self._check_size(-(-size // 8), f"{node.keyword} {node.name}".strip(), each)
            alignment = max(alignment, align if each.name or each.bits is None else 1)
        made = KernelType(node.keyword, _rounded_up(size, 8 * alignment) // 8, name, id=number)
        return Layout(made, alignment, members)

    def _alignment(self, target: Target, node: ast.Struct | ast.Member) -> int:
        """The least alignment of a struct or member, by its attributes."""
        return max((self._aligned(target, each) for each in node.attributes if each.name == "aligned"), default=1)

    def _aligned(self, target: Target, node: ast.Attribute) -> int:
        match node.operand:
            case None:
                return _GREATEST_ALIGNMENT
            case ast.Type() as operand:
                return self._type(target, operand)[1]
            case operand:
                found = self._number(target, operand, "an alignment")
        if found <= 0 or found & (found - 1):
            raise self._source.error(f"an alignment is a power of two, and this is {found}", operand)
        return found

    def _number(self, target: Target, node: ast.Expression, what: str) -> int:
        """A number that the layout depends on."""
        return c_number(
            self._source, node, what, self._enums.values, lambda operand: self._type(target, operand)[0].size
        )

    def _check_size(self, size: int, what: str, node: ast.Node) -> None:
        if size > _MAX_SIZE:
            raise self._source.error(f"{what} is too large, with {size} bytes: give it {_MAX_SIZE} at most", node)

    def _bit_field(
        self, node: ast.Member, bits: int, type_: KernelType, position: int, *, packed: bool
    ) -> tuple[Member, int]:
        """A member of some bits, and the bit behind it: it lies within one unit of its type, unless it is packed."""
        unit = 8 * type_.size
        if type_.kind not in ("int", "enum") or not 0 <= bits <= unit or (bits == 0 and node.name):
            raise self._source.error(f"a bit-field has 1 to {unit} bits, as a number", node)
        if packed and bits:
            return Member(position // 8, type_, position % 8, bits), position + bits
        if not bits or position // unit != (position + bits - 1) // unit:
            position = _rounded_up(position, unit)
        return Member(position // unit * type_.size, type_, position % unit, bits), position + bits

    def _type(self, target: Target, node: ast.Type) -> tuple[KernelType, int]:
        """A member's type, and its alignment; 0 if that is not known."""
        from pyebpf.bpftrace.translate.casts import NUMBERS

        if isinstance(node, ast.PointerType):
            if isinstance(node.target, ast.FunctionType):
                return KernelType("pointer", 8, element=KernelType("void", 0, "void")), 8
            return KernelType("pointer", 8, element=self._pointed(target, node.target)), 8
        if isinstance(node, ast.ArrayType):
            element, align = self._type(target, node.element)
            length = 0
            if node.size is not None:
                length = self._number(target, node.size, "the length of this array")
            if length < 0:
                raise self._source.error(f"this array has a length of {length}: give 0 or more", node)
            self._check_size(element.size * length, "this array", node)
            return KernelType("array", element.size * length, element=element, length=length), align
        if isinstance(node, ast.Enum) or (isinstance(node, ast.TypeName) and node.keyword == "enum"):
            enum = self._enums.of_node(node) if isinstance(node, ast.Enum) else self._enums.type(node.name)
            found = enum or KernelType("enum", 4, node.name)
            return found, found.size
        if isinstance(node, ast.Struct):
            defined = self.find(target, _name(node))
            assert defined is not None
            return defined.type, defined.align
        if not isinstance(node, ast.TypeName):
            raise self._source.error("a member of this type is not supported yet", node)
        if not node.keyword and node.name in NUMBERS:
            number = NUMBERS[node.name]
            return KernelType("int", number.size, node.name, signed=number.signed), number.size
        if not node.keyword and node.name in ("bool", "_Bool"):
            return KernelType("int", 1, "_Bool"), 1
        if not node.keyword and node.name in _FLOATS:
            return KernelType("float", _FLOATS[node.name], node.name, signed=True), _FLOATS[node.name]
        if node.keyword in ("struct", "union"):
            own = self.find(target, node.name)
            if own is not None:
                return own.type, own.align
        try:
            found = target.type_named(f"{node.keyword} {node.name}".strip())
        except NotFound as error:
            raise self._source.error(str(error), node) from None
        return found, 0 if found.composite or found.kind == "array" else found.size

    def _pointed(self, target: Target, node: ast.Type) -> KernelType:
        """A pointer's target; a struct that nothing is known of is void, as C lets it be incomplete."""
        if isinstance(node, ast.TypeName) and node.name == "void":
            return KernelType("void", 0, "void")
        name = _name(node) if isinstance(node, ast.Struct) else ""
        if isinstance(node, ast.TypeName) and node.keyword:
            name = node.name
        if name in self._nodes:
            # It may contain what is being laid out: its size is asked for where a pointer to it is used.
            return KernelType(self._nodes[name].keyword, 0, name, id=_LATER)
        if isinstance(node, ast.TypeName) and node.keyword in ("struct", "union"):
            try:
                return target.type_named(f"{node.keyword} {node.name}")
            except NotFound:
                return KernelType("void", 0, "void")
        return self._type(target, node)[0]
