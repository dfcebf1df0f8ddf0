"""Expressions: each node becomes a value that Python computes now, or builder calls for a value of each event."""

from __future__ import annotations

import ast
import operator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from pyebpf.builder import operations
from pyebpf.builder.conditions import Always, Test
from pyebpf.builder.contexts.base import Context
from pyebpf.builder.entity import Entity, describe
from pyebpf.builder.function import Join
from pyebpf.builder.integers import Int
from pyebpf.builder.none import MaybeInt
from pyebpf.builder.optional import Maybe
from pyebpf.builder.records import PendingRecord, Record
from pyebpf.builder.strings import String, StringSource
from pyebpf.builder.words import Word
from pyebpf.dsl.purity import has_code
from pyebpf.dsl.scope import MISSING
from pyebpf.dsl.translate.choices import join_values, leave
from pyebpf.dsl.translate.conditions import as_test, boolean, branch, check_called, compile_time, is_boolean
from pyebpf.dsl.translate.known import checked, raised, rounds
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.dsl.translate.texts import check_ascii
from pyebpf.dsl.translate.tuples import described, is_built, is_run_time
from pyebpf.errors import PyebpfError, closest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from pyebpf.dsl.translate.frame import Frame

__all__ = ["BINARY", "COMPILE_TIME", "attribute", "binary", "expression", "needs_events", "python_value", "spread"]

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
        value = handler(f, node) if handler is not None else python_value(f, node)
        return checked(f, value.holds if isinstance(value, Always) else value)
    except (PyebpfError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raised(f, error)
        raise
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
    return attribute(f, owner, node.attr)


def attribute(f: Frame, owner: Any, name: str) -> Any:
    """`owner.name`."""
    if isinstance(owner, Maybe):
        owner = owner.settle(f.p)
    if isinstance(owner, (Record, PendingRecord)):
        from pyebpf.dsl.translate.closures import record_member

        member = record_member(f, owner, name)
        if member is not None:
            return member
    if isinstance(owner, Entity):
        return owner.attribute(f.p, name)
    if isinstance(owner, tuple) and is_run_time(owner) and name not in getattr(owner, "_fields", ()):
        f.fail(f"a tuple has no attribute {name} in a probe")
    value = compile_time(f, _attribute_of, owner, name) if has_code(owner, name) else _attribute_of(owner, name)
    if value is MISSING:
        if owner is None:
            f.fail(f"None has no attribute {name}")
        what = getattr(owner, "__name__", None) or f"{_article(type(owner).__name__)} {type(owner).__name__}"
        f.fail(f"{what} has no attribute {name}{closest(name, dir(owner))}")
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
    if sign == "%" and isinstance(left, str | bytes) and (is_built(right) or is_run_time(right)):
        f.fail("a string can't be formatted on each event: emit a record with the values, and format in user space")
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
            ways.append((value, leave(f)))
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
        ways.append((last, leave(f)))
    f.depth -= raised
    return join_values(f, ways, end, f"`{word}`")


def _number_of(f: Frame, value: Any) -> Any:
    """A condition's number, here, and that of a look-up known to have found one; anything else as it is."""
    if isinstance(value, MaybeInt):
        return value.local(f.p)
    return operations.to_int(f.p, value) if isinstance(value, Test) else value


def _if_exp(f: Frame, node: ast.IfExp) -> Any:
    then, otherwise, end = Join(), Join(), Join()
    branch(f, node.test, then, otherwise)
    ways: list[tuple[Any, Join]] = []
    undecided = int(bool(then.edges and otherwise.edges))
    f.depth += undecided
    for join, value_node in ((then, node.body), (otherwise, node.orelse)):
        if join.edges:
            f.b.start(join)
            ways.append((_number_of(f, expression(f, value_node)), leave(f)))
    f.depth -= undecided
    return join_values(f, ways, end, "the conditional expression")


def _named(f: Frame, node: ast.NamedExpr) -> Any:
    from pyebpf.dsl.translate.statements import assign_name

    assign_name(f, node.target, expression(f, node.value))
    return f.read(node.target.id)


def _subscript(f: Frame, node: ast.Subscript) -> Any:
    owner = expression(f, node.value)
    if isinstance(owner, Entity) and isinstance(node.slice, ast.Slice) and not isinstance(owner, String | StringSource):
        f.fail(f"a slice of {describe(owner)} can't be taken on each event: index single elements", node.slice)
    index = expression(f, node.slice)
    return item(f, owner, index, node)


def item(f: Frame, owner: Any, index: Any, node: ast.Subscript) -> Any:
    """`owner[index]`."""
    if isinstance(owner, Entity):
        return owner.item(f.p, index)
    run_time = isinstance(index, Entity) or is_run_time(index)
    if run_time and isinstance(owner, (tuple, list, dict, str, bytes, bytearray, range)):
        if is_run_time(owner):
            f.fail(
                f"{described(owner)} is indexed by a number known while compiling, not by {describe(index)}"
                + f.why_run_time(node.slice)
            )
        from pyebpf.dsl.translate.tables import table_item

        return table_item(f, owner, operations.settled(f.p, index))
    if run_time and not isinstance(owner, type):
        f.fail(
            f"a Python {type(owner).__name__} exists only while compiling, and the index only on each "
            "event: keep the values in a bpf.array" + f.why_run_time(node.slice)
        )
    check_ascii(f, owner)
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
            elements.extend(spread(f, each))
        else:
            elements.append(expression(f, each))
    return elements


def spread(f: Frame, node: ast.Starred) -> list[Any]:
    """The values that `*x` stands for."""
    from pyebpf.dsl.translate.sequences import elements_of

    values = elements_of(f, expression(f, node.value), node)
    if values is None:
        refuse(f, node)
    return values


def _call(f: Frame, node: ast.Call) -> Any:
    from pyebpf.dsl.translate.calls import call

    return call(f, node)


def _comprehension(f: Frame, node: ast.ListComp | ast.GeneratorExp) -> Any:
    """A comprehension: by Python if all is known while compiling, else written out."""
    if not needs_events(f, node):
        return python_value(f, node)
    from pyebpf.dsl.translate.sequences import comprehension

    return tuple(comprehension(f, node))


def _set_or_dict(f: Frame, node: ast.Set | ast.Dict | ast.SetComp | ast.DictComp) -> Any:
    """A set or a dictionary, known while compiling; words such as `enum()` may stand in it."""
    from pyebpf.dsl.translate.sequences import comprehension

    if not needs_events(f, node):
        return python_value(f, node)
    elements: list[Any]
    match node:
        case ast.Set(elts=nodes):
            elements = _elements(f, nodes)
        case ast.Dict(keys=keys, values=values):
            if None in keys:
                refuse(f, node)
            elements = [(expression(f, k), expression(f, v)) for k, v in zip(keys, values, strict=True) if k]
        case _:
            elements = comprehension(f, node)
    if any(map(is_run_time, elements)):
        refuse(f, node)
    return compile_time(f, dict if isinstance(node, ast.Dict | ast.DictComp) else set, elements)


def needs_events(f: Frame, node: ast.expr) -> bool:
    """Whether an expression with names of its own uses what only each event knows."""
    from pyebpf.dsl.translate.calls import uses_bpf

    bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for each in ast.walk(node):
        if isinstance(each, (ast.Name, ast.Attribute)) and isinstance(each.ctx, ast.Load):
            root = each
            while isinstance(root, ast.Attribute) and isinstance(root.value, (ast.Name, ast.Attribute)):
                root = root.value
            if not isinstance(root, ast.Name) or root.id in bound:
                continue
            value = _name(f, root) if isinstance(each, ast.Name) else _module_member(f, each)
            if is_run_time(value) or isinstance(value, Entity):
                return True
            if isinstance(value, FunctionType) and uses_bpf(value):
                return True
    return False


def _module_member(f: Frame, node: ast.Attribute) -> Any:
    """The value of `module.name`; None for attributes of anything else."""
    owner = _name(f, node.value) if isinstance(node.value, ast.Name) else None
    return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None


def _lambda(f: Frame, node: ast.Lambda) -> Any:
    from pyebpf.dsl.translate.closures import local_function

    return local_function(f, node)


def python_value(f: Frame, node: ast.expr) -> Any:
    """Let Python evaluate a whole expression, which then must not touch what only each event knows."""
    if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.Starred)):
        refuse(f, node)
    bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {argument.arg for argument in ast.walk(node) if isinstance(argument, ast.arg)}
    names: dict[str, Any] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id not in bound:
            value = _name(f, each)
            if is_run_time(value) or isinstance(value, (Word, Context)):
                refuse(f, node)
            names[each.id] = value
        elif isinstance(each, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            refuse(f, each)
    _bounded(f, node, bound)
    code = _compile(node)
    return compile_time(f, _evaluate, code, names)


def _bounded(f: Frame, node: ast.expr, bound: set[str]) -> None:
    """Look first at what Python is to compute: ranges that it would go through, and numbers that may be large."""
    for each in ast.walk(node):
        if isinstance(each, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            over = [generator.iter for generator in each.generators]
            simple = [iter_ for iter_ in over if isinstance(iter_, ast.Call | ast.Name) and _is_free(iter_, bound)]
            ranges = [_range_of(f, iter_) for iter_ in simple]
            rounds(f, ranges)
        elif (
            isinstance(each, ast.BinOp)
            and isinstance(each.op, (ast.Pow, ast.LShift, ast.Mult))
            and _is_free(each, bound)
        ):
            expression(f, each)


def _is_free(node: ast.expr, bound: set[str]) -> bool:
    return not any(isinstance(each, ast.Name) and each.id in bound for each in ast.walk(node))


def _range_of(f: Frame, node: ast.expr) -> Any:
    """The value of a name, or of a call of `range`; None of other calls, which may do anything."""
    if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and _name(f, node.func) is range):
        return None
    return expression(f, node)


def _compile(node: ast.expr) -> CodeType:
    return compile(ast.Expression(node), COMPILE_TIME, "eval", dont_inherit=True)


def _evaluate(code: CodeType, names: dict[str, Any]) -> Any:
    return FunctionType(code, names)()  # the probe's own source; eval() would look like the author's


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
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Set: _set_or_dict,
    ast.Dict: _set_or_dict,
    ast.SetComp: _set_or_dict,
    ast.DictComp: _set_or_dict,
    ast.Lambda: _lambda,
}
