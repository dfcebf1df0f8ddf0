"""Expressions: each node becomes a value that Python computes now, or builder calls for a value of each event."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import Test
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values import operations
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.optional import Maybe, OptionalInt
from pyebpf.builder.values.records import Record, RecordLiteral
from pyebpf.builder.values.strings import String, StringSource
from pyebpf.dsl.scope import MISSING
from pyebpf.dsl.text_of import text_of
from pyebpf.dsl.translate.choices import join_values, leave
from pyebpf.dsl.translate.closures import record_member
from pyebpf.dsl.translate.compile_time import check_called, check_held, compile_time, has_code, named
from pyebpf.dsl.translate.conditions import as_test, boolean, branch, is_boolean
from pyebpf.dsl.translate.operands import operands, taken_before
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.dsl.translate.string_buffers import check_ascii
from pyebpf.dsl.translate.tuples import described, is_built, is_run_time
from pyebpf.errors import closest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.dsl.translate.frame import Frame, Handlers

BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], object]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.MatMult: ("@", operator.matmul),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
    ast.BitAnd: ("&", operator.and_),
}

UNARY: dict[type[ast.unaryop], tuple[str, Callable[[Any], object]]] = {
    ast.UAdd: ("+", operator.pos),
    ast.USub: ("-", operator.neg),
    ast.Invert: ("~", operator.invert),
}


def _constant(f: Frame, node: ast.Constant) -> object:
    if isinstance(node.value, (float, complex)):
        # Python may compute with it; what reaches the program must be an integer, which every taker checks.
        return node.value
    if node.value is Ellipsis:
        f.fail("`...` has no meaning in a probe: write `pass`")
    return node.value


def _attribute(f: Frame, node: ast.Attribute) -> object:
    owner = f.expression(node.value)
    return attribute(f, owner, node.attr)


def attribute(f: Frame, owner: object, name: str) -> object:
    """`owner.name`."""
    if isinstance(owner, Maybe):
        owner = owner.to_rvalue(f.p)
    if isinstance(owner, Test):
        owner = operations.to_int(f.p, owner)
    if isinstance(owner, (Record, RecordLiteral)):
        member = record_member(f, owner, name)
        if member is not None:
            return member
    if isinstance(owner, Entity):
        return owner.attribute(f.p, name)
    if isinstance(owner, tuple) and is_run_time(owner) and name not in getattr(owner, "_fields", ()):
        f.fail(f"a tuple has no attribute {name} in a probe")
    runs_code = has_code(owner, name)
    value = compile_time(f, _attribute_of, owner, name) if runs_code else _attribute_of(owner, name)
    if value is MISSING:
        if owner is None:
            f.fail(f"None has no attribute {name}")
        kind = text_of(type(owner)) or "value"
        what = text_of(owner) or f"{_article(kind)} {kind}"
        f.fail(f"{what} has no attribute {name}{closest(name, dir(owner))}")
    if not runs_code:
        check_held(f, f"the attribute {name}", value)
    return value


def _article(word: str) -> str:
    return "an" if word[0] in "aeiouAEIOU" else "a"


def _attribute_of(owner: object, name: str) -> object:
    return getattr(owner, name, MISSING)


def _binary(f: Frame, node: ast.BinOp) -> object:
    return binary(f, node.op, *operands(f, [node.left, node.right]))


def binary(f: Frame, op: ast.operator, left: object, right: object) -> object:
    """`left op right`."""
    sign, function = BINARY[type(op)]
    check_called(f, left, right)
    if sign == "%" and isinstance(left, (str, bytes)) and (is_built(right) or is_run_time(right)):
        f.fail("a string can't be formatted at run time: emit a record with the values, and format in user space")
    if is_built(left) or is_built(right):
        return operations.binary(f.p, sign, left, right)
    if is_run_time(left) or is_run_time(right):
        f.fail(f"tuples of run-time values have no operator {sign}")
    return compile_time(f, function, left, right)


def _unary(f: Frame, node: ast.UnaryOp) -> object:
    if isinstance(node.op, ast.Not):
        return boolean(f, node)
    sign, function = UNARY[type(node.op)]
    value = f.expression(node.operand)
    check_called(f, value)
    return operations.unary(f.p, sign, value) if is_built(value) else compile_time(f, function, value)


def _bool_op(f: Frame, node: ast.BoolOp) -> object:
    """`a and b`, `a or b`: their truth if each is a condition by its form, else the integer that decides."""
    if is_boolean(node):
        return boolean(f, node)
    word = "and" if isinstance(node.op, ast.And) else "or"
    end = Join()
    paths: list[tuple[object, Join]] = []
    raised = 0
    for value_node in node.values[:-1]:
        value = f.expression(value_node)
        value = _number_of(f, value)
        if isinstance(value, Entity) and not isinstance(value, Int):
            # Truth first: for what may be None its message is the better one.
            f.b.where = f.at(value_node)
            as_test(f, value)
            f.b.where = f.at(node)
            value = operations.rvalue(f.p, value)
            if not isinstance(value, Int):
                f.fail(f"`{word}` as a value is for integers, and {described(value)} is none: write `if`", value_node)
        decided, following = Join(), Join()
        test = as_test(f, value)
        f.b.branch(test, *((following, decided) if word == "and" else (decided, following)))
        if decided.edges:
            f.b.start(decided)
            paths.append((value, leave(f)))
            f.depth += 1
            raised += 1
        f.b.start(following)
        if not f.b.reachable:
            break
    if f.b.reachable:
        last = f.expression(node.values[-1])
        last = operations.rvalue(f.p, last)
        if isinstance(last, Entity) and not isinstance(last, Int) and paths:
            f.fail(f"`{word}` as a value is for integers, and {described(last)} is none: write `if`", node.values[-1])
        paths.append((last, leave(f)))
    f.depth -= raised
    return join_values(f, paths, end, f"`{word}`")


def _number_of(f: Frame, value: object) -> object:
    """A condition's number, here, and that of a look-up known to have found one; anything else as it is."""
    if isinstance(value, OptionalInt):
        return value.local(f.p)
    return operations.to_int(f.p, value) if isinstance(value, Test) else value


def _if_exp(f: Frame, node: ast.IfExp) -> object:
    then, otherwise, end = Join(), Join(), Join()
    branch(f, node.test, then, otherwise)
    paths: list[tuple[object, Join]] = []
    undecided = int(bool(then.edges and otherwise.edges))
    f.depth += undecided
    for join, value_node in ((then, node.body), (otherwise, node.orelse)):
        if join.edges:
            f.b.start(join)
            paths.append((_number_of(f, f.expression(value_node)), leave(f)))
    f.depth -= undecided
    return join_values(f, paths, end, "the conditional expression")


def _subscript(f: Frame, node: ast.Subscript) -> object:
    owner = taken_before(f, f.expression(node.value), node.slice)
    if (
        isinstance(owner, Entity)
        and isinstance(node.slice, ast.Slice)
        and not isinstance(owner, (String, StringSource))
    ):
        f.fail(f"a slice of {describe(owner)} can't be taken at run time: index single elements", node.slice)
    index = f.expression(node.slice)
    return item(f, owner, index, node)


def item(f: Frame, owner: object, index: object, node: ast.Subscript) -> object:
    """`owner[index]`."""
    if isinstance(owner, Entity):
        return owner.item(f.p, index)
    run_time = isinstance(index, Entity) or is_run_time(index)
    if run_time and isinstance(owner, (tuple, list, dict, str, bytes, bytearray, range)):
        if is_run_time(owner):
            f.fail(
                f"{described(owner)} is indexed by a number known at compile time, not by {describe(index)}"
                + f.why_run_time(node.slice)
            )
        from pyebpf.dsl.translate.tables import table_item

        return table_item(f, owner, operations.rvalue(f.p, index))
    if run_time and not isinstance(owner, type):
        f.fail(
            f"a Python {type(owner).__name__} exists only at compile time, and the index is known only "
            "at run time: keep the values in a bpf.array" + f.why_run_time(node.slice)
        )
    check_ascii(f, owner)
    value = compile_time(f, operator.getitem, owner, index)
    if type(owner) in (tuple, list, dict):
        check_held(f, f"the element {index!r}", value)
    return value


def _slice(f: Frame, node: ast.Slice) -> slice:
    ends = [None if end is None else f.expression(end) for end in (node.lower, node.upper, node.step)]
    ends = [end.literal if isinstance(end, Int) and end.literal is not None else end for end in ends]
    if any(isinstance(end, Entity) for end in ends):
        refuse(f, node)
    return slice(*ends)


def _named(f: Frame, node: ast.NamedExpr) -> object:
    f.assign(node.target.id, f.expression(node.value))
    return f.read(node.target.id)


HANDLERS: Handlers = {
    ast.Constant: _constant,
    ast.Name: named,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool_op,
    ast.Compare: boolean,
    ast.IfExp: _if_exp,
    ast.NamedExpr: _named,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
}
