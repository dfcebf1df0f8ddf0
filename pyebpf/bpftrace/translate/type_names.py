"""Types that a script names or asks for: `sizeof`, `typeof`, declarations. What is asked about is never run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.value_types import (
    Address,
    Array,
    Boolean,
    Characters,
    Number,
    Record,
    String,
    Tuple,
    UnkeptStruct,
    natural,
)
from pyebpf.builder.ssa.conditions import Always
from pyebpf.builder.values.kernel_objects import KernelReference
from pyebpf.builder.values.memory import Space
from pyebpf.errors import NotFound, NotSupported
from pyebpf.types import INTEGERS, CharFactory, IntType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType
    from pyebpf.target import KernelType


@contextmanager
def _asking(s: Scope) -> Iterator[None]:
    """Build the body where nothing comes to."""
    b, before = s.p.b, s.asking
    s.asking = True
    with b.if_(Always(holds=False)):
        yield
    with b.else_():
        pass
    s.asking = before


def asked(s: Scope, node: ast.Expression) -> Value:
    """The value of an expression that is only asked about: it is built where nothing comes to."""
    from pyebpf.bpftrace.translate.expressions import evaluate
    from pyebpf.bpftrace.translate.members import kept

    with _asking(s):
        return kept(s, evaluate(s, node), node, large=True)


def struct_of(s: Scope, node: ast.Expression) -> KernelType | None:
    """The struct that an expression is, as `*$pointer` is one; None while that is still being found."""
    from pyebpf.bpftrace.translate.expressions import evaluate
    from pyebpf.bpftrace.translate.values import Embedded, is_unknown

    with _asking(s):
        found = evaluate(s, node)
    if is_unknown(found):
        return None
    if not isinstance(found, Embedded) or not isinstance(found.entity, KernelReference):
        raise s.error(f"this is {found.type.name}, and no struct: write *$pointer, or struct NAME", node)
    return found.entity.type


def space_of_numbers(s: Scope) -> Space:
    """The memory that a number leads to, as a pointer: the process's where its code is probed, else as it says itself.

    So no process has the kernel's memory printed by what it passes to a function of its own.
    """
    return Space.USER if s.point.provider in ("uprobe", "uretprobe", "usdt") else Space.EITHER


def value_type(s: Scope, node: ast.Type | ast.Expression) -> ValueType | None:
    """The type of values that a script names, or of an expression; None while that is still being found."""
    from pyebpf.bpftrace.translate import casts
    from pyebpf.bpftrace.translate.members import enum_number
    from pyebpf.bpftrace.translate.values import is_unknown, kernel_target

    space = space_of_numbers(s)
    match node:
        case ast.TypeOf(operand=operand):
            return value_type(s, _typedef(s, operand))
        case ast.PointerType(target=inner):
            return Address(casts.pointed(s, inner), space)
        case ast.ArrayType(element=ast.TypeName(name="string", keyword=""), size=size) if size is not None:
            return String(_length(s, size))
        case ast.ArrayType(element=inner, size=size):
            element = value_type(s, inner)
            if not isinstance(element, Number | Boolean | Address | Array):
                raise s.error("an array of this is not supported yet", node)
            array = Array(element, 1 if size is None else _length(s, size))
            if array.storage.size > MAX_BYTES:
                raise s.error(
                    f"this array has {array.storage.size} bytes, and scripts keep at most {MAX_BYTES}: take fewer", node
                )
            return Array(element, 0) if size is None else array
        case ast.TypeName(name=name, keyword=""):
            if name in ("bool", "_Bool"):
                return Boolean()
            if name == "string":
                return String(s.max_strlen)
            if name in casts.NUMBERS:
                return Number(casts.NUMBERS[name].signed, size=casts.NUMBERS[name].size)
    if isinstance(node, ast.TypeName):
        named = casts.kernel_type(s, node)
        target = kernel_target(named)
        if not isinstance(target, IntType):
            return Address(target, space)
        number = Number(target.signed, size=target.size)
        return enum_number(s, number, named) if named.kind == "enum" else number
    if isinstance(node, ast.Expression):
        found = asked(s, node)
        return None if is_unknown(found) else found.type
    raise s.error("this type is not supported yet", node)


def is_structs(s: Scope, node: ast.Type | ast.Expression) -> bool:
    """Whether a type is an array of structs, whose values are known where one is assigned."""
    from pyebpf.bpftrace.translate import casts

    if not isinstance(node, ast.ArrayType) or not isinstance(node.element, ast.TypeName) or not node.element.keyword:
        return False
    return casts.kernel_type(s, node.element).composite


def _typedef(s: Scope, node: ast.Type | ast.Expression) -> ast.Type | ast.Expression:
    """A bare name as a type, if there is such a type, and it is no value: `typeof(size_t)`."""
    from pyebpf.bpftrace.translate import casts
    from pyebpf.bpftrace.translate.builtins import BUILTINS

    if not isinstance(node, ast.Identifier) or node.name in BUILTINS:
        return node
    try:
        casts.type_named(s, "", node.name)
    except (NotFound, NotSupported):
        return node
    return ast.TypeName(node.start, node.end, node.name)


def _length(s: Scope, node: ast.Expression) -> int:
    from pyebpf.bpftrace.translate.expressions import known_number

    found = known_number(s, node)
    if not 1 <= found <= MAX_LENGTH:
        raise s.error(f"a length of {found}: give 1 to {MAX_LENGTH}", node)
    return found


#: Bytes of an array that a script keeps, at most.
MAX_BYTES = 512
#: The length of an array or of a string that a script names, at most.
MAX_LENGTH = 1024


def size_of(s: Scope, node: ast.Type | ast.Expression) -> int:
    """Bytes of a type, or of an expression's value."""
    from pyebpf.bpftrace.translate import casts
    from pyebpf.bpftrace.translate.values import Text

    node = _typedef(s, node)
    if isinstance(node, ast.TypeOf):
        return size_of(s, node.operand)
    if isinstance(node, ast.ArrayType) and not _is_text(node):
        return size_of(s, node.element) * (0 if node.size is None else _length(s, node.size))
    if isinstance(node, ast.TypeName) and (node.keyword or node.name not in (*casts.NUMBERS, "bool", "string")):
        return casts.kernel_type(s, node).size
    if isinstance(node, ast.Expression):
        if isinstance(node, ast.Unary) and node.operator == "*":
            pointer = asked(s, node.value).type
            target = pointer.target if isinstance(pointer, Address) and pointer.held is None else None
            if target is not None:
                return 1 if isinstance(target, CharFactory) else target.size
        found = asked(s, node)
        return found.room if isinstance(found, Text) else c_size(found.type)
    type_ = value_type(s, node)
    assert type_ is not None  # it is named
    return c_size(type_)


def c_size(type_: ValueType) -> int:
    """Bytes of a value, as C has it."""
    return _layout(type_)[0]


def _layout(type_: ValueType) -> tuple[int, int]:
    """Size and alignment of a type as C lays it out: in maps and events numbers take more."""
    if isinstance(type_, UnkeptStruct):
        return type_.target.size, 8
    if isinstance(type_, Array):
        size, alignment = _layout(type_.element)
        return size * type_.length, alignment
    if not isinstance(type_, Tuple | Record):
        size = (type_.least if isinstance(type_, Number) else 0) or natural(type_).size
        return size, 1 if isinstance(type_, String | Characters) else min(size & -size, 8) or 1
    size, alignment = 0, 1
    for part in type_.parts:
        length, align = _layout(part)
        size, alignment = -(-size // align) * align + length, max(alignment, align)
    if isinstance(type_, Record) and type_.c_size:
        return type_.c_size, alignment
    return -(-size // alignment) * alignment, alignment


def _is_text(node: ast.ArrayType) -> bool:
    return isinstance(node.element, ast.TypeName) and node.element.name == "string"


def integer(type_: Number) -> IntType:
    """A number's type in memory."""
    return INTEGERS[f"{'s' if type_.signed else 'u'}{8 * type_.size}"]


def target(s: Scope, node: ast.TypeOf) -> KernelType | IntType | CharFactory | None:
    """The target of a pointer to `typeof(...)`."""
    from pyebpf.bpftrace.translate import casts

    if isinstance(node.operand, ast.Type):
        return casts.pointed(s, node.operand)
    found = value_type(s, node)
    if isinstance(found, Number):
        return integer(found)
    return found.target if isinstance(found, Address | UnkeptStruct) else None
