"""Casts, and the types that a script names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach.uprobes import Uprobe
from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate import arrays, type_names
from pyebpf.bpftrace.translate.values import (
    Condition,
    Embedded,
    Integer,
    Reference,
    Text,
    Unknown,
    kernel_target,
)
from pyebpf.bpftrace.value_types import Address, Array, Boolean, Number, String
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.strings import String as BuilderString
from pyebpf.compiler.ir import Op
from pyebpf.dataclass import replace
from pyebpf.errors import NotFound
from pyebpf.target import KernelType
from pyebpf.types import U64, CharArray, CharFactory, IntType
from pyebpf.types.integers import INTEGERS

if TYPE_CHECKING:
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType

#: bpftrace's names of integers, and C's words for them.
NUMBERS: dict[str, IntType] = {
    f"{sign}int{bits}": INTEGERS[f"{'u' if sign else 's'}{bits}"] for sign in ("", "u") for bits in (8, 16, 32, 64)
}
NUMBERS |= {f"{name}_t": type_ for name, type_ in list(NUMBERS.items())}
NUMBERS |= {name: INTEGERS[name] for name in ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")}
NUMBERS |= {
    "char": INTEGERS["s8"],
    "signed char": INTEGERS["s8"],
    "unsigned char": INTEGERS["u8"],
    "short": INTEGERS["s16"],
    "unsigned short": INTEGERS["u16"],
    "int": INTEGERS["s32"],
    "unsigned int": INTEGERS["u32"],
    "unsigned": INTEGERS["u32"],
    "long": INTEGERS["s64"],
    "unsigned long": INTEGERS["u64"],
    "long long": INTEGERS["s64"],
    "unsigned long long": INTEGERS["u64"],
    "size_t": INTEGERS["u64"],
    "ssize_t": INTEGERS["s64"],
}

#: Constants of an enum that a message names, at most.
_SHOWN = 8


def c_name(node: ast.TypeName) -> str:
    """A type's name in C."""
    return f"{node.keyword} {node.name}".strip()


def kernel_type(s: Scope, node: ast.TypeName) -> KernelType:
    """A type of the script's, of the file that is probed, or of the kernel's BTF. Raises CompileError."""
    try:
        return type_named(s, node.keyword, node.name)
    except NotFound as error:
        if not node.keyword and node.name in s.script.defines:
            raise s.error(f"#define {node.name} gives a value in probes: write the type itself", node) from None
        raise s.error(str(error), node) from None


def type_named(s: Scope, keyword: str, name: str) -> KernelType:
    """A type by its name. Raises NotFound."""
    own = s.script.structs.find(s.p.target, name) if keyword in ("struct", "union") else None
    if own is not None:
        return own.type
    enum = s.script.enums.type(name) if keyword == "enum" else None
    if enum is not None:
        return enum
    attach = s.p.attach
    if isinstance(attach, Uprobe) and (near := s.script.user_types.named(attach, keyword, name)):
        return near
    try:
        return s.p.target.type_named(f"{keyword} {name}".strip())
    except NotFound:
        # A file has many sources besides that of the function: the kernel's types are asked before them.
        if isinstance(attach, Uprobe):
            far = s.script.user_types.named(attach, keyword, name, everywhere=True)
            if far is not None:
                return far
        raise


def pointed(s: Scope, node: ast.Type | ast.TypeOf) -> KernelType | IntType | CharFactory | None:
    """The target of a pointer to a type that the script names."""
    if isinstance(node, ast.PointerType):
        return pointer_target(pointed(s, node.target))
    if isinstance(node, ast.TypeOf):
        return type_names.target(s, node)
    if not isinstance(node, ast.TypeName):
        raise s.error("a pointer to this is not supported yet", node)
    if node.name == "void":
        return None
    if node.name == "char":
        return CharFactory()
    if not node.keyword and node.name in NUMBERS:
        return NUMBERS[node.name]
    return kernel_target(kernel_type(s, node))


def pointer_target(target: KernelType | IntType | CharFactory | None) -> KernelType:
    """The target of a pointer to a pointer to this."""
    return KernelType("pointer", U64.size, element=_as_element(target))


def _as_element(target: KernelType | IntType | CharFactory | None) -> KernelType:
    """The target of a pointer, as a pointer to that pointer knows it."""
    if target is None:
        return KernelType("void", 0, "void")
    if isinstance(target, KernelType):
        return target
    if isinstance(target, CharFactory):
        return KernelType("int", 1, "char", signed=True)
    return KernelType("int", target.size, f"{'s' if target.signed else 'u'}{8 * target.size}", signed=target.signed)


def cast(s: Scope, value: Value, node: ast.Cast) -> Value:
    """`(type)value`."""
    from pyebpf.bpftrace.translate.members import enumerated

    type_ = node.type
    if isinstance(type_, ast.TypeOf) and isinstance(type_.operand, ast.Type):
        return cast(s, value, ast.Cast(node.start, node.end, type_.operand, node.value))
    if isinstance(type_, ast.TypeOf | ast.ArrayType):
        wanted = type_names.value_type(s, type_)
        if isinstance(wanted, String) and isinstance(value, Text):
            return _text(s, value, wanted.size, node)
        return converted(s, value, wanted, node)
    if isinstance(type_, ast.PointerType):
        return _pointer(s, value, pointed(s, type_.target), node)
    if isinstance(type_, ast.TypeName):
        if not type_.keyword and type_.name in ("bool", "_Bool"):
            test = value.truth(s.p)
            if test is None:
                raise s.error(f"this is {value.type.name}, which is neither true nor false", node)
            return Condition(test)
        if not type_.keyword and type_.name in NUMBERS:
            return narrowed(s, _number(s, value, node, NUMBERS[type_.name].size), NUMBERS[type_.name])
        if not type_.keyword and type_.name == "string":
            raise s.error(
                "a string is cast to one of a length: (string[16])…; str() reads one where a pointer leads", node
            )
        found = kernel_type(s, type_)
        if found.composite:
            # Of old bpftrace took a cast to a struct for one to a pointer to it.
            return _pointer(s, value, found, node)
        target = kernel_target(found)
        if isinstance(target, IntType):
            number = narrowed(s, _number(s, value, node, target.size), target)
            if found.kind != "enum":
                return number
            number = enumerated(s, number, found)
            _check_constant(s, number, number.type, node)
            return number
    raise s.error("a cast to this type is not supported yet", node)


def converted(s: Scope, value: Value, type_: ValueType | None, node: ast.Cast) -> Value:
    """A value as one of a type that was found, not written; None while that is still being found."""
    if type_ is None:
        return Unknown(s.p)
    match type_:
        case Number():
            return narrowed(s, _number(s, value, node, type_.size), type_names.integer(type_))
        case Address(target):
            return _pointer(s, value, target, node)
        case Array(element, length):
            return arrays.as_array(s, value, element, length or None, node)
        case Boolean():
            test = value.truth(s.p)
            if test is not None:
                return Condition(test)
        case String() if isinstance(value, Text):
            return value
    if value.type == type_:
        return value
    raise s.error(f"this is {value.type.name}, of which no {type_.name.partition(' ')[2]} is made", node)


def _text(s: Scope, value: Text, size: int, node: ast.Cast) -> Text:
    """A text with room for more: of `size` bytes."""
    if value.size == size:
        return value
    if value.room > size:
        raise s.error(
            f"this is a string[{value.room}], with its NUL: cast it to no shorter one, or cut it by str(…, n)", node
        )
    if isinstance(value.source, bytes):
        return Text(value.source, size, value.data)
    storage = CharArray(size)
    slot = s.p.b.slot(-(-size // 8) * 8, name="cast")
    s.p.store_value(s.p.b.slot_address(slot), 0, storage, value.operand(s.p))
    return Text(BuilderString(storage, Lvalue(slot=slot, owner="a cast", writable=False)), size)


def _number(s: Scope, value: Value, node: ast.Cast, size: int) -> Integer:
    from pyebpf.bpftrace.translate.expressions import as_integer

    row = arrays.row_of(s, value, node)
    if row is not None:
        return arrays.as_number(s, row, size, node)
    if isinstance(value, Embedded):
        raise s.error("a struct or an array inside another is no number: cast a member", node)
    if isinstance(value, Text):
        raise s.error("a string is no number", node)
    return as_integer(s, value, node)


def assigned(s: Scope, value: Integer, type_: Number, node: ast.Node) -> Integer:
    """A number as a variable has it that is declared with a type."""
    kind = INTEGERS[f"{'s' if type_.signed else 'u'}{8 * type_.size}"]
    literal = value.literal if value.type.least else None
    if literal is not None and not kind.minimum <= literal <= kind.maximum:
        raise s.error(f"{literal} does not fit the variable's type: it holds {kind.minimum} to {kind.maximum}", node)
    _check_constant(s, value, type_, node)
    found = narrowed(s, value, kind)
    found.type = replace(found.type, names=type_.names, enum=type_.enum, clock=type_.clock)
    return found


def _check_constant(s: Scope, value: Integer, type_: Number, node: ast.Node) -> None:
    """Refuse a literal that is none of the constants of an enum of the script's."""
    if type_.names and value.literal is not None and value.literal not in dict(type_.names):
        known = [f"{name} = {number}" for number, name in type_.names]
        shown = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
        raise s.error(f"{value.literal} is no constant of this enum: it has {shown}", node)


def narrowed(s: Scope, value: Integer, type_: IntType) -> Integer:
    """The low bytes of a number, extended by the type's sign."""
    p = s.p
    if value.literal is not None:
        low = value.literal & ((1 << 8 * type_.size) - 1)
        literal = low - (1 << 8 * type_.size) if type_.signed and low >> (8 * type_.size - 1) else low
        found = Integer(p.b.const(literal), signed=type_.signed, size=type_.size)
        found.literal, found.sure = literal, value.sure
        return found
    if type_.size == 8:
        return Integer(value.value, signed=type_.signed)
    cut = p.b.emit(Op.SEXT if type_.signed else Op.ZEXT, value.value, size=type_.size)
    p.b.assume_bounds(cut, type_.minimum, type_.maximum)
    return Integer(cut, signed=type_.signed, size=type_.size)


def _pointer(s: Scope, value: Value, target: KernelType | IntType | CharFactory | None, node: ast.Cast) -> Reference:
    if isinstance(value, Embedded):
        return Reference(value.address(s.p), target, value.entity.space)
    number = value.number(s.p)
    if number is None or isinstance(value, Text):
        raise s.error(f"this is {value.type.name}, which is no address", node)
    space = value.type.space if isinstance(value, Reference) else type_names.space_of_numbers(s)
    return Reference(number, target, space)
