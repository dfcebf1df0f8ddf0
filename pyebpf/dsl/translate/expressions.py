"""Expressions: each node becomes a value that Python computes now, or builder calls for a value of each event."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from pyebpf.builder import operations
from pyebpf.builder.conditions import Always, Test
from pyebpf.builder.entity import Entity, RunTime, describe
from pyebpf.builder.function import Join
from pyebpf.builder.integers import Int
from pyebpf.builder.none import MaybeInt
from pyebpf.builder.words import Word
from pyebpf.dsl.purity import has_code
from pyebpf.dsl.scope import MISSING
from pyebpf.dsl.translate.conditions import as_test, boolean, branch, check_called, compile_time, is_boolean
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.dsl.translate.tuples import TupleValue, described, is_built, is_run_time
from pyebpf.errors import closest
from pyebpf.types import U64

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from pyebpf.builder.environment import Variable
    from pyebpf.dsl.translate.frame import Frame

__all__ = ["BINARY", "COMPILE_TIME", "expression", "join_values"]

BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
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

#: The file of what Python evaluates for a probe.
COMPILE_TIME = "<compile time>"

UNARY: dict[type[ast.unaryop], tuple[str, Callable[[Any], Any]]] = {
    ast.UAdd: ("+", operator.pos),
    ast.USub: ("-", operator.neg),
    ast.Invert: ("~", operator.invert),
}


def expression(f: Frame, node: ast.expr) -> Any:
    """The value of an expression: an Entity, or a Python value known now."""
    b = f.b
    before, b.where = b.where, f.at(node)
    try:
        handler = HANDLERS.get(type(node))
        value = handler(f, node) if handler is not None else _python(f, node)
        return value.holds if isinstance(value, Always) else value
    finally:
        b.where = before


def _constant(f: Frame, node: ast.Constant) -> Any:
    if isinstance(node.value, (float, complex)):
        # Python may compute with it; what reaches the program must be an integer, which every taker checks.
        return node.value
    if node.value is Ellipsis:
        f.fail("`...` has no meaning in a probe: write `pass`")
    return node.value


def _name(f: Frame, node: ast.Name) -> Any:
    value = f.read(node.id)
    if value is MISSING:
        known = [*f.local_names, *f.scope.captured]
        f.fail(f"{node.id} is not defined{closest(node.id, known)}")
    return value


def _attribute(f: Frame, node: ast.Attribute) -> Any:
    owner = expression(f, node.value)
    if isinstance(owner, Entity):
        return owner.attribute(f.p, node.attr)
    if isinstance(owner, tuple) and is_run_time(owner):
        f.fail(f"a tuple has no attribute {node.attr} in a probe")
    value = (
        compile_time(f, _attribute_of, owner, node.attr)
        if has_code(owner, node.attr)
        else _attribute_of(owner, node.attr)
    )
    if value is MISSING:
        if owner is None:
            f.fail(f"None has no attribute {node.attr}")
        what = getattr(owner, "__name__", None) or f"{_article(type(owner).__name__)} {type(owner).__name__}"
        f.fail(f"{what} has no attribute {node.attr}{closest(node.attr, dir(owner))}")
    return value


def _article(word: str) -> str:
    return "an" if word[0] in "aeiouAEIOU" else "a"


def _attribute_of(owner: Any, name: str) -> Any:
    return getattr(owner, name, MISSING)


def _binary(f: Frame, node: ast.BinOp) -> Any:
    return binary(f, node.op, expression(f, node.left), expression(f, node.right))


def binary(f: Frame, op: ast.operator, left: Any, right: Any) -> Any:
    """`left op right`."""
    sign, function = BINARY[type(op)]
    check_called(f, left, right)
    if is_built(left) or is_built(right):
        return operations.binary(f.p, sign, left, right)
    if is_run_time(left) or is_run_time(right):
        f.fail(f"tuples of run-time values have no operator {sign}")
    return compile_time(f, function, left, right)


def _unary(f: Frame, node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.Not):
        return boolean(f, node)
    sign, function = UNARY[type(node.op)]
    value = expression(f, node.operand)
    check_called(f, value)
    return operations.unary(f.p, sign, value) if is_built(value) else compile_time(f, function, value)


def _compare(f: Frame, node: ast.Compare) -> Any:
    return boolean(f, node)


def _bool_op(f: Frame, node: ast.BoolOp) -> Any:
    """`a and b`, `a or b`: their truth if each is a condition by its form, else the integer that decides."""
    if is_boolean(node):
        return boolean(f, node)
    word = "and" if isinstance(node.op, ast.And) else "or"
    end = Join()
    ways: list[tuple[Any, Join]] = []
    raised = 0
    for value_node in node.values[:-1]:
        value = expression(f, value_node)
        value = _number_of(f, value)
        if isinstance(value, Entity) and not isinstance(value, Int):
            # Truth first: for what may be None its message is the better one.
            f.b.where = f.at(value_node)
            as_test(f, value)
            f.b.where = f.at(node)
            value = operations.settled(f.p, value)
            if not isinstance(value, Int):
                f.fail(f"`{word}` as a value is for integers, and {described(value)} is none: write `if`", value_node)
        decided, following = Join(), Join()
        test = as_test(f, value)
        f.b.branch(test, *((following, decided) if word == "and" else (decided, following)))
        if decided.edges:
            f.b.start(decided)
            ways.append((value, _leave(f)))
            f.depth += 1
            raised += 1
        f.b.start(following)
        if not f.b.reachable:
            break
    if f.b.reachable:
        last = expression(f, node.values[-1])
        last = operations.settled(f.p, last)
        if isinstance(last, Entity) and not isinstance(last, Int) and ways:
            f.fail(f"`{word}` as a value is for integers, and {described(last)} is none: write `if`", node.values[-1])
        ways.append((last, _leave(f)))
    f.depth -= raised
    return join_values(f, ways, end, f"`{word}`")


def _number_of(f: Frame, value: Any) -> Any:
    """A condition's number, here, and that of a look-up known to have found one; anything else as it is."""
    if isinstance(value, MaybeInt):
        return value.local(f.p)
    return operations.to_int(f.p, value) if isinstance(value, Test) else value


def _leave(f: Frame) -> Join:
    """Leave the current point for one that is taken up later."""
    way = Join()
    f.b.jump(way)
    return way


def join_values(f: Frame, ways: list[tuple[Any, Join]], end: Join, what: str) -> Any:
    """One value of the several that paths bring to `end`; the only one as it is."""
    if not ways:
        return None
    if len(ways) == 1:
        f.b.start(ways[0][1])
        return ways[0][0]
    ways = [(TupleValue(value) if isinstance(value, tuple) else value, way) for value, way in ways]
    values = [value for value, _ in ways]
    for value in values:
        if not isinstance(value, (RunTime, int)):
            f.fail(
                f"{what} gives {described(value)} on one path, which is known only while compiling: write `if` "
                "with a statement for each"
            )
    runtime = [value for value in values if isinstance(value, RunTime)]
    integers = all(isinstance(value, (Int, int)) for value in values)
    unsigned = integers and any(isinstance(value, Int) and value.type == U64 for value in runtime)
    if unsigned:
        for value in values:
            if isinstance(value, int) and value < 0:
                f.fail(f"{what} gives a u64 on one path and {value} on another: write u64(…) or s64(…)")
            if isinstance(value, Int) and value.type != U64:
                f.fail(f"{what} gives a u64 on one path and an s64 on another: write u64(…) or s64(…)")
    if integers and not unsigned and any(isinstance(value, int) and value >= 1 << 63 for value in values):
        f.fail(f"{what} gives a number from 2**63 on, a u64, and an s64: write u64(…) or s64(…)")
    variables: tuple[Variable, ...] | None = None
    prototype: RunTime | None = None
    for value, way in ways:
        f.b.start(way)
        one: RunTime
        if isinstance(value, RunTime):
            one = value.local(f.p)
        else:
            one = operations.to_int(f.p, value)
            if unsigned:
                one = one.convert(f.p, U64)
        if prototype is None or variables is None:
            prototype = one
            variables = tuple(f.b.variable(part.kind, "choice") for part in one.parts)
        elif one.shape != prototype.shape:
            f.fail(
                f"{what} gives {prototype.describe()} on one path and {one.describe()} on another: write `if` "
                "with a statement for each"
            )
        for variable, part in zip(variables, one.parts, strict=True):
            f.b.write(variable, part)
        f.b.jump(end)
    f.b.start(end)
    assert prototype is not None
    assert variables is not None
    parts = [f.b.read(variable) for variable in variables]
    return prototype.rebuild(tuple(part for part in parts if part is not None))


def _if_exp(f: Frame, node: ast.IfExp) -> Any:
    then, otherwise, end = Join(), Join(), Join()
    branch(f, node.test, then, otherwise)
    ways: list[tuple[Any, Join]] = []
    undecided = int(bool(then.edges and otherwise.edges))
    f.depth += undecided
    for join, value_node in ((then, node.body), (otherwise, node.orelse)):
        if join.edges:
            f.b.start(join)
            ways.append((_number_of(f, expression(f, value_node)), _leave(f)))
    f.depth -= undecided
    return join_values(f, ways, end, "the conditional expression")


def _named(f: Frame, node: ast.NamedExpr) -> Any:
    from pyebpf.dsl.translate.statements import assign_name

    assign_name(f, node.target, expression(f, node.value))
    return f.read(node.target.id)


def _subscript(f: Frame, node: ast.Subscript) -> Any:
    owner = expression(f, node.value)
    if isinstance(owner, Entity) and isinstance(node.slice, ast.Slice):
        f.fail(f"a slice of {describe(owner)} can't be taken on each event: index single elements", node.slice)
    index = expression(f, node.slice)
    return item(f, owner, index, node)


def item(f: Frame, owner: Any, index: Any, node: ast.Subscript) -> Any:
    """`owner[index]`."""
    if isinstance(owner, Entity):
        return owner.item(f.p, index)
    if (isinstance(index, Entity) or is_run_time(index)) and not isinstance(owner, type):
        f.fail(
            f"a Python {type(owner).__name__} exists only while compiling, and the index only on each "
            "event: keep the values in a bpf.array" + f.why_run_time(node.slice)
        )
    return compile_time(f, operator.getitem, owner, index)


def _slice(f: Frame, node: ast.Slice) -> slice:
    ends = [None if end is None else expression(f, end) for end in (node.lower, node.upper, node.step)]
    if any(isinstance(end, Entity) for end in ends):
        refuse(f, node)
    return slice(*ends)


def _tuple(f: Frame, node: ast.Tuple) -> Any:
    return tuple(_elements(f, node.elts))


def _list(f: Frame, node: ast.List) -> Any:
    elements = _elements(f, node.elts)
    if any(map(is_run_time, elements)):
        refuse(f, node)
    return elements


def _elements(f: Frame, nodes: list[ast.expr]) -> list[Any]:
    elements: list[Any] = []
    for each in nodes:
        if isinstance(each, ast.Starred):
            spread = expression(f, each.value)
            if isinstance(spread, Entity):
                refuse(f, each)
            elements.extend(compile_time(f, list, spread))
        else:
            elements.append(expression(f, each))
    return elements


def _call(f: Frame, node: ast.Call) -> Any:
    from pyebpf.dsl.translate.calls import call

    return call(f, node)


def _python(f: Frame, node: ast.expr) -> Any:
    """Let Python evaluate a whole expression, which then must not touch what only each event knows."""
    if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.Starred)):
        refuse(f, node)
    bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {argument.arg for argument in ast.walk(node) if isinstance(argument, ast.arg)}
    names: dict[str, Any] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id not in bound:
            value = _name(f, each)
            if is_run_time(value) or isinstance(value, Word):
                refuse(f, node)
            names[each.id] = value
        elif isinstance(each, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            refuse(f, each)
    code = _compile(node)
    return compile_time(f, _evaluate, code, names)


def _compile(node: ast.expr) -> CodeType:
    return compile(ast.Expression(node), COMPILE_TIME, "eval", dont_inherit=True)


def _evaluate(code: CodeType, names: dict[str, Any]) -> Any:
    return eval(code, names)  # noqa: S307 - the probe's own source


HANDLERS: dict[type[ast.AST], Callable[[Frame, Any], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.IfExp: _if_exp,
    ast.NamedExpr: _named,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Call: _call,
}
