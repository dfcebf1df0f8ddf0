"""Expressions: the value of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.described import described, printed_as_text
from pyebpf.bpftrace.scopes import unassigned
from pyebpf.bpftrace.translate import (
    addresses,
    arithmetic,
    arrays,
    buffers,
    casts,
    divisions,
    groups,
    maps,
    members,
    names,
    signs,
    type_names,
)
from pyebpf.bpftrace.translate.folding import check_relation, folded
from pyebpf.bpftrace.translate.values import (
    Condition,
    Elements,
    Embedded,
    Group,
    Integer,
    Reference,
    Row,
    Text,
    Unknown,
    constant,
    is_unknown,
    joined,
    kernel_target,
    literal_text,
    of_entity,
)
from pyebpf.bpftrace.value_types import Address, Boolean, Number, String
from pyebpf.builder.ssa.conditions import Always, Test, negate
from pyebpf.builder.values.kernel_objects import KernelArray, value_at
from pyebpf.builder.values.pointers import Pointer
from pyebpf.compiler.ir import Op
from pyebpf.dataclass import replace
from pyebpf.types import INTEGERS, CharFactory, IntType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.compiler import ir


def evaluate(s: Scope, node: ast.Expression) -> Value:
    """The value of an expression. Raises CompileError for one that has none."""
    found = perform(s, node)
    if found is None:
        raise s.error("this has no value: it is a statement of its own", node)
    return found


def perform(s: Scope, node: ast.Expression) -> Value | None:
    """Build an expression for its effect; its value, None if it has none."""
    build = _BUILDERS.get(type(node))
    if build is None:
        raise s.error(f"{_NAMES.get(type(node), 'this')} is not supported yet: write it another way", node)
    before, s.p.b.where = s.p.b.where, s.script.source.location(node)
    found = build(s, node)
    s.p.b.where = before
    return found


def condition(s: Scope, node: ast.Expression) -> Test:
    """Whether an expression holds, as a test."""
    value = evaluate(s, node)
    test = value.truth(s.p)
    if test is None:
        raise s.error(f"{value.type.name} is neither true nor false", node)
    return test


def number(s: Scope, node: ast.Expression) -> Integer:
    """An expression that is a number."""
    return as_integer(s, evaluate(s, node), node)


def as_integer(s: Scope, value: Value, node: ast.Node) -> Integer:
    """A value as a number."""
    if isinstance(value, Integer):
        return value
    found = value.number(s.p)
    if found is None:
        raise s.error(f"this is {value.type.name}, and a number is needed here", node)
    return Integer(found, signed=isinstance(value, Condition))


def known_number(s: Scope, node: ast.Expression) -> int:
    """A number that is known when the script is compiled."""
    found = evaluate(s, node)
    if not isinstance(found, Integer) or found.literal is None:
        raise s.error("give a number that is known when the script is compiled", node)
    return found.literal


def known_format(s: Scope, node: ast.Expression) -> str:
    """The format of printf(): `known_text`, but a NUL that is written there does not end it."""
    return node.value.decode("utf-8", "surrogateescape") if isinstance(node, ast.String) else known_text(s, node)


def known_text(s: Scope, node: ast.Expression) -> str:
    """A text that is known when the script is compiled."""
    if isinstance(node, ast.String):  # which is never kept, and may be longer than strings are
        return node.value.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    found = evaluate(s, node)
    if not isinstance(found, Text) or not isinstance(found.source, bytes):
        raise s.error("give a text in quotes", node)
    return found.source.decode("utf-8", "surrogateescape")


# -- variables and operators ------------------------------------------------------------------------------------------


def _variable(s: Scope, node: ast.Variable) -> Value:
    if node.name in s.bound:
        return Group([each.read(s.p) for each in s.bound[node.name]])
    found = s.storage.now(node.name)
    if isinstance(found, Integer) and node.name in s.natural:
        found.type = replace(found.type, flexible=True)
    if found is not None:
        return found
    if node.name in s.let:
        s.untyped.add(node.name)
    s.unknown = s.unknown or s.error(unassigned(node, s.variables.types), node)
    return Unknown(s.p)


def _unary(s: Scope, node: ast.Unary) -> Value:
    p = s.p
    if node.operator == "!":
        return Condition(negate(condition(s, node.value)))
    if (known := folded(s, node)) is not None:
        return constant(p, known)
    value = evaluate(s, node.value)
    if node.operator == "*":
        return dereferenced(s, value, node)
    value = as_integer(s, value, node.value)
    found = arithmetic.unary(p, node.operator, value)
    if value.signed or value.type.flexible:
        return found
    return casts.narrowed(s, found, INTEGERS[f"u{8 * value.type.size}"])  # as bpftrace has what is unsigned


def dereferenced(s: Scope, value: Value, node: ast.Node) -> Value:
    """`*pointer`."""
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Integer):
        from pyebpf.bpftrace.translate.texts import space_of

        value = Reference(value.value, INTEGERS["u64"], space_of(s, value))
    if isinstance(value, Reference) and (held := addresses.held_by(s, value)) is not None:
        return held
    if not isinstance(value, Reference):
        raise s.error(f"this is {value.type.name}: * reads what a pointer leads to, cast it to one", node)
    return element(s, value, s.p.b.const(0), node)


def element(s: Scope, pointer: Reference, index: ir.Value, node: ast.Node) -> Value:
    """The element at an index of memory that a pointer leads to."""
    p, target, space = s.p, pointer.type.target, pointer.type.space
    if target is None:
        raise s.error("nothing is known of what this pointer leads to: cast it, (uint32 *)$pointer", node)
    address = pointer.value
    if isinstance(target, CharFactory):
        from pyebpf.types import S8

        target = S8
    distance = p.b.binary(Op.MUL, index, p.b.const(target.size))
    address = p.b.binary(Op.ADD, address, distance)
    if isinstance(target, IntType):
        found: object = Pointer(address, target, space).item(p, 0)
    else:
        found = value_at(p, address, 0, target, trusted=False, space=space)
    return wrapped(s, found, node)


def wrapped(s: Scope, entity: object, node: ast.Node) -> Value:
    """The value of an entity of the builder's."""
    found = of_entity(s.p, entity, s.max_strlen)
    if found is None:
        raise s.error("values of this type are not supported yet", node)
    if isinstance(found, Reference):
        found.type = Address(s.script.structs.resolved(s.p.target, found.type.target), found.type.space)
    return found


def _binary(s: Scope, node: ast.Binary) -> Value:
    if node.operator in ("&&", "||"):
        return _both_or_either(s, node)
    if (known := folded(s, node)) is not None:
        return constant(s.p, known)
    if node.operator in arithmetic.RELATIONS:
        check_relation(s, node)
    left, right = evaluate(s, node.left), evaluate(s, node.right)
    if isinstance(node.left, ast.PositionalParameter) and isinstance(left, Text) and node.operator == "+":
        names.check_parameter(s, node.left)
        return literal_text(known_text(s, node.left).encode("utf-8", "surrogateescape")[known_number(s, node.right) :])
    if node.operator in arithmetic.RELATIONS:
        signs.check_compared(s, node.operator, left, right, node)
    return combined(s, node.operator, left, right, node)


def combined(s: Scope, operator: str, left: Value, right: Value, node: ast.Node) -> Value:
    """`left operator right`."""
    p = s.p
    if isinstance(left, Text) or isinstance(right, Text):
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return Unknown(p)
        if not isinstance(left, Text) or not isinstance(right, Text):
            other = (right if isinstance(left, Text) else left).type
            what = printed_as_text(other) or f"{other.name}: write both as one type, str(…) of a pointer"
            raise s.error(f"{operator} of a string and {what}", node)
        return arithmetic.of_texts(s, operator, left, right, node)
    if isinstance(left, Row | Embedded | Elements):
        one_row, other_row = members.row_of(s, left, node), members.row_of(s, right, node)
        if one_row is not None and other_row is not None:
            return arrays.compare(s, operator, one_row, other_row, node)
    if isinstance(left, Embedded) or isinstance(right, Embedded):
        left, right = members.kept(s, left, node), members.kept(s, right, node)
    if isinstance(left, Group) and isinstance(right, Group) and operator in ("==", "!="):
        return groups.compare(s, operator, left, right, node)
    if operator in ("==", "!=") and buffers.are_buffers(left, right):
        return buffers.compare(p, operator, left, right)
    if isinstance(left, Reference) and operator in ("+", "-") and not isinstance(right, Reference):
        return arithmetic.moved(p, operator, left, as_integer(s, right, node))
    if isinstance(right, Reference) and operator == "+" and not isinstance(left, Reference):
        return arithmetic.moved(p, operator, right, as_integer(s, left, node))
    if isinstance(right, Reference) and operator in ("+", "-") and not isinstance(left, Unknown):
        bytes_ = isinstance(left, Reference) and arithmetic.step(left) == arithmetic.step(right) == 1
        if operator == "+" or not bytes_:
            raise s.error(
                f"{operator} of {left.type.name} and a pointer: write (uint64)$pointer for the bytes, and divide a "
                "difference by sizeof(*$pointer) for elements",
                node,
            )
    one, other_number = as_integer(s, left, node), as_integer(s, right, node)
    if isinstance(one, Unknown) and isinstance(other_number, Unknown):
        return Unknown(p)
    if not one.sure and operator == "-":  # it may yet be a pointer, to which no number but a literal fits
        return Integer(p.b.const(0), signed=True, literal=0, sure=False)
    if operator in arithmetic.RELATIONS:
        return Condition(arithmetic.compare(operator, one, other_number))
    if operator in ("/", "%") and other_number.literal == 0:
        raise s.error("division by zero", node)
    if operator in ("/", "%") and other_number.literal is None:
        made = divisions.divided(s, operator, one, other_number, node)
    else:
        made = arithmetic.binary(p, operator, one, other_number)
    if one.type.clock and not isinstance(node, ast.Binary):  # `+=` and `++` leave a variable its clock
        made.type = replace(made.type, clock=one.type.clock)
    if isinstance(left, Condition) and isinstance(right, Condition) and operator not in ("<<", ">>"):
        return Condition(arithmetic.is_set(p, made.value))  # bpftrace's `true + true` is true
    return made


def _both_or_either(s: Scope, node: ast.Binary) -> Value:
    """`&&` and `||`: the right side is built where the left has not decided."""
    b = s.p.b
    answer = b.variable(hint="both" if node.operator == "&&" else "either")
    b.write(answer, b.const(int(node.operator == "||")))
    first = condition(s, node.left)
    if isinstance(first, Always):
        if first.holds is (node.operator == "||"):
            b.read_final(answer)
            return Condition(first)
        second = condition(s, node.right)
        if isinstance(second, Always):
            b.read_final(answer)
            return Condition(second)
        b.write(answer, b.truth_value(second))
        return _decided(s, answer)
    with b.if_(first if node.operator == "&&" else negate(first)):
        b.write(answer, b.truth_value(condition(s, node.right)))
    return _decided(s, answer)


def _decided(s: Scope, answer: Variable) -> Condition:
    found = s.p.b.read_final(answer)
    s.p.b.assume_bounds(found, 0, 1)
    return Condition(arithmetic.is_set(s.p, found))


def _conditional(s: Scope, node: ast.Conditional) -> Value | None:
    """`test ? then : otherwise`: both sides become a value of one type, which a variable of no name holds."""
    b = s.p.b
    first = None if node.then is not None else evaluate(s, node.test)
    test = condition(s, node.test) if first is None else first.truth(s.p)
    if test is None:
        raise s.error("this is neither true nor false", node.test)
    name = s.script.name_of(node)
    found = True
    with b.if_(test):
        value = first if node.then is None else perform(s, node.then)
        found = _note(s, name, value, node)
    with b.else_():
        found = _note(s, name, perform(s, node.otherwise), node) and found
    if not found:
        return None
    made = s.storage.now(name)
    if made is None:
        return Unknown(s.p)
    if isinstance(made, Integer):  # one of two literals is as a literal: others decide on its sign
        made.type = replace(made.type, flexible=getattr(s.variables.types.get(name), "flexible", False))
    return made


def _note(s: Scope, name: str, value: Value | None, node: ast.Node) -> bool:
    if value is None:
        return False
    assign_variable(s, name, value, node)
    return True


def assign_variable(s: Scope, name: str, value: Value, node: ast.Node) -> None:
    """Give a variable a value, and its type a place."""
    value = members.kept(s, value, node, large=True)
    if is_unknown(value):
        return
    written = "" if name[0] in "?." else f"${name.partition('.')[0]}"  # others are not the script's
    declared = s.declared.get(name)
    if isinstance(declared, Number) and isinstance(value, Integer):
        value = casts.assigned(s, value, declared, node)
    if isinstance(declared, Boolean) and (test := value.truth(s.p)) is not None:
        value = Condition(test)
    if isinstance(declared, String) and isinstance(value, Text) and value.size > declared.size:
        lengths = f"string[{declared.size}], and this is a string[{value.size}], with its NUL"
        raise s.error(f"this is declared as {lengths}: declare it longer, or cut it by str(…, n)", node)
    if not s.variables.note(name, value.type):
        held = described(s.variables.types[name])
        raise s.error(f"{written or 'this'} holds {held} elsewhere, and {described(value.type)} here", node)
    known = s.storage.type_of(name)
    if written:
        signs.check_kept(s, value, known, written, node)
    if known is not None and joined(known, value.type) == known:
        s.storage.write(name, value)


def _increment(s: Scope, node: ast.Increment) -> Value | None:
    operator = node.operator[0]
    if isinstance(node.target, ast.Variable):
        before = evaluate(s, node.target)
        after = combined(s, operator, before, constant(s.p, 1), node)
        assign_variable(s, node.target.name, after, node)
        return (s.storage.now(node.target.name) or after) if node.prefix else before
    return maps.augment(s, node.target, operator, constant(s.p, 1), wanted="after" if node.prefix else "before")


# -- composite values --------------------------------------------------------------------------------------------------


def _index(s: Scope, node: ast.Index) -> Value:
    value = evaluate(s, node.value)
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Group):
        index = known_number(s, node.index)
        if index >= len(value.elements):
            raise s.error(f"this tuple has {len(value.elements)} elements", node)
        return value.elements[index]
    if isinstance(value, Embedded) and isinstance(value.entity, KernelArray):
        array = value.entity
        index_value = number(s, node.index)
        if index_value.literal is not None:
            if array.array_length and index_value.literal >= array.array_length:
                raise s.error(f"index {index_value.literal} lies outside the array of {array.array_length}", node)
            return wrapped(s, array.item(s.p, index_value.literal), node)
        whole = Reference(value.address(s.p), kernel_target(array.element), array.space)
        return element(s, whole, index_value.value, node)
    if isinstance(value, Reference):
        return element(s, value, number(s, node.index).value, node)
    if isinstance(value, Row):
        return arrays.element(s, value, number(s, node.index), node)
    if isinstance(value, Elements):
        index_value = number(s, node.index)
        if index_value.literal is not None:
            return wrapped(s, value.entity.item(s.p, index_value.literal), node)
        row = arrays.row_of(s, value, node)
        if row is None:
            raise s.error("give an index that is known when the script is compiled, of an array of these", node.index)
        return arrays.element(s, row, index_value, node)
    if isinstance(value, Text):
        from pyebpf.bpftrace.translate.texts import character

        return character(s, value, number(s, node.index), node)
    raise s.error(f"this is {value.type.name}, which is not indexed", node)


# -- types -------------------------------------------------------------------------------------------------------------


def _cast(s: Scope, node: ast.Cast) -> Value:
    value = evaluate(s, node.value)
    if isinstance(value, Unknown):
        return value
    return casts.cast(s, value, node)


# -- calls, blocks -----------------------------------------------------------------------------------------------------


def _call(s: Scope, node: ast.Call) -> Value | None:
    from pyebpf.bpftrace.translate.functions import call

    return call(s, node)


def _block(s: Scope, node: ast.Block) -> Value | None:
    from pyebpf.bpftrace.translate.statements import run_statement

    for each in node.statements:
        run_statement(s, each)
    return None if node.value is None else perform(s, node.value)


def _comptime(s: Scope, node: ast.Comptime) -> Value:
    """`comptime value`: one that is known when the script is compiled."""
    value = evaluate(s, node.value)
    known = isinstance(value, Condition) and isinstance(value.test, Always)
    known = known or (isinstance(value, Integer) and value.literal is not None)
    if not known and not (isinstance(value, Text) and isinstance(value.source, bytes)):
        raise s.error("this is not known when the script is compiled", node)
    return value


def _if(s: Scope, node: ast.If) -> Value | None:
    """`if`; as a value, that of the block that was run, which a variable of no name holds."""
    b, name = s.p.b, s.script.name_of(node)
    test = condition(s, node.test)
    if isinstance(test, Always):
        # The other block is never run, and may hold what is right elsewhere only.
        taken = node.then if test.holds else node.otherwise
        return None if taken is None else perform(s, taken)
    with b.if_(test):
        found = _note(s, name, perform(s, node.then), node)
    if node.otherwise is not None:
        with b.else_():
            found = _note(s, name, perform(s, node.otherwise), node) and found
    if not found or node.otherwise is None:
        return None
    return s.storage.now(name) or Unknown(s.p)


_BUILDERS: dict[type[ast.Expression], Callable[[Scope, Any], Value | None]] = {
    ast.Integer: names.integer,
    ast.String: names.string,
    ast.Boolean: names.boolean,
    ast.Identifier: names.identifier,
    ast.PositionalParameter: names.parameter,
    ast.PositionalParameterCount: names.parameter_count,
    ast.Variable: _variable,
    ast.Map: maps.read,
    ast.MapAccess: maps.read,
    ast.Unary: _unary,
    ast.Increment: _increment,
    ast.Binary: _binary,
    ast.Conditional: _conditional,
    ast.Tuple: groups.tuple_of,
    ast.Record: groups.record_of,
    ast.TupleAccess: groups.element,
    ast.FieldAccess: members.field,
    ast.Index: _index,
    ast.Cast: _cast,
    ast.SizeOf: lambda s, node: constant(s.p, type_names.size_of(s, node.operand)),
    ast.OffsetOf: members.offset_of,
    ast.Call: _call,
    ast.Block: _block,
    ast.If: _if,
    ast.Comptime: _comptime,
    ast.AddressOf: addresses.address_of,
}
_NAMES: dict[type[ast.Expression], str] = {
    ast.TypeOf: "typeof()",
    ast.TypeInfo: "typeinfo()",
}
