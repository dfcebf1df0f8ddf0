"""Conditions: what `if`, `while`, `and`, `or` and `not` decide by, as tests and as values."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import Always, negate
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values import comparisons, operations
from pyebpf.builder.values.entity import Entity
from pyebpf.builder.values.integers import MIRRORED, Int
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference
from pyebpf.dsl.translate.compile_time import check_called, compile_time
from pyebpf.dsl.translate.operands import operands, taken_before
from pyebpf.dsl.translate.tuples import TupleValue, is_built, is_run_time
from pyebpf.types import S64

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.dsl.translate.frame import Frame

COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], object]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}


def branch(f: Frame, node: ast.expr, then: Join, otherwise: Join) -> None:
    """Go to `then` if the expression is true, else to `otherwise`; what need not be evaluated is not."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            branch(f, operand, otherwise, then)
        case ast.BoolOp(op=joined, values=values):
            # Once one operand has left it open, the rest is evaluated on some events only.
            outer = f.depth
            for value in values[:-1]:
                following = Join()
                branch(f, value, *((following, otherwise) if isinstance(joined, ast.And) else (then, following)))
                f.b.start(following)
                if not f.b.reachable:
                    break
                f.depth = outer + bool((otherwise if isinstance(joined, ast.And) else then).edges)
            else:
                branch(f, values[-1], then, otherwise)
            f.depth = outer
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            b = f.b
            before, b.where = b.where, f.at(node)
            outer = f.depth
            current = taken_before(f, f.expression(left), *comparators)
            for number, (op, right_node) in enumerate(zip(ops, comparators, strict=True), 1):
                right = taken_before(f, f.expression(right_node), *comparators[number:])
                nodes = (left if number == 1 else comparators[number - 2], right_node)
                test = comparison(f, op, current, right, nodes, chained=len(ops) > 1)
                if number == len(ops):
                    b.branch(test, then, otherwise)
                else:
                    following = Join()
                    b.branch(test, following, otherwise)
                    b.start(following)
                    if not b.reachable:
                        break
                    f.depth = outer + bool(otherwise.edges)
                current = right
            f.depth = outer
            b.where = before
        case _:
            test = test_of(f, node)
            f.b.branch(test, then, otherwise)


def test_of(f: Frame, node: ast.expr) -> Test:
    """The test that an expression is true, its operands evaluated here."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        before, f.b.where = f.b.where, f.at(node)
        left, right = operands(f, [node.left, node.comparators[0]])
        test = comparison(f, node.ops[0], left, right, (node.left, node.comparators[0]))
        f.b.where = before
        return test
    value = f.expression(node)
    before, f.b.where = f.b.where, f.at(node)
    test = as_test(f, value)
    f.b.where = before
    return test


def as_test(f: Frame, value: object) -> Test:
    """The truth of a value."""
    check_called(f, value)
    if is_built(value):
        return operations.truth(f.p, value)
    return Always(bool(compile_time(f, bool, value)))


def comparison(
    f: Frame,
    op: ast.cmpop,
    left: object,
    right: object,
    nodes: tuple[ast.expr | None, ast.expr | None] = (None, None),
    *,
    chained: bool = False,
) -> Test:
    """One comparison of two evaluated operands, of several in a row if `chained`; `nodes` are theirs."""
    check_called(f, left, right)
    match op:
        case ast.Is() | ast.IsNot():
            test = _identity(f, left, right, nodes[0])
            return test if isinstance(op, ast.Is) else negate(test)
        case ast.In() | ast.NotIn():
            test = _membership(f, left, right)
            return test if isinstance(op, ast.In) else negate(test)
        case _:
            sign, function = COMPARISONS[type(op)]
            if not _has_entity(left) and not _has_entity(right):
                return Always(bool(compile_time(f, function, left, right)))
            if left is None or right is None:
                f.fail(f"None is compared by `is None` or `is not None`, not by {sign}")
            answer = _answer_of_an_option(sign, left, right, nodes)
            if answer is not None:
                return Always(answer)
            compare = comparisons.compare_in_chain if chained else comparisons.compare
            return compare(f.p, sign, left, right)


def _answer_of_an_option(
    sign: str, left: object, right: object, nodes: tuple[ast.expr | None, ast.expr | None]
) -> bool | None:
    """The answer that a number from outside the probe decides, such as an option's 0 in `elapsed >= options.least`.

    What a probe itself says so, `elapsed >= 0`, is a mistake, which the comparison refuses.
    """
    if isinstance(left, Int) and left.literal is None and type(right) is int and _is_from_outside(nodes[1]):
        return left.answer(sign, right)
    if isinstance(right, Int) and right.literal is None and type(left) is int and _is_from_outside(nodes[0]):
        return right.answer(MIRRORED[sign], left)
    return None


def _is_from_outside(node: ast.expr | None) -> bool:
    return node is not None and any(isinstance(each, ast.Attribute) for each in ast.walk(node))


def _identity(f: Frame, left: object, right: object, node: ast.expr | None) -> Test:
    if left is None:
        left, right = right, left
    if right is not None:
        if _has_entity(left) or _has_entity(right):
            f.fail("`is` compares with None only: compare values by ==")
        return Always(left is right)
    if not isinstance(left, Entity):
        return Always(left is None)
    if _is_something(left) and f.may_be_none(node):
        return Always(holds=False)
    return operations.is_none(f.p, left)


def _is_something(value: Entity) -> bool:
    """Whether a value is never None, whatever paths led to it."""
    if isinstance(value, Reference):
        return value.lvalue.null_check is None
    return isinstance(value, (Int, TupleValue, RecordLiteral))


def _membership(f: Frame, item: object, container: object) -> Test:
    if not _has_entity(item) and not _has_entity(container):
        return Always(bool(compile_time(f, operator.contains, container, item)))
    return comparisons.contains(f.p, item, container)


def _has_entity(value: object) -> bool:
    return operations.holds_entities(value) or is_run_time(value)


def is_boolean(node: ast.expr) -> bool:
    """Whether an expression is True or False by its form."""
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool()):
            return True
        case ast.BoolOp(values=values):
            return all(map(is_boolean, values))
        case _:
            return False


def boolean(f: Frame, node: ast.expr) -> object:
    """The value of a condition: True or False where that is known at compile time, else an integer 1 or 0."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        test = test_of(f, node)
        if isinstance(test, Always):
            return test.holds
        return Int(f.b.truth_value(test), S64)
    then, otherwise = Join(), Join()
    branch(f, node, then, otherwise)
    return decided(f, then, otherwise)


def decided(f: Frame, then: Join, otherwise: Join) -> bool | Int:
    """True where `then` is arrived at and False where `otherwise` is; an integer 1 or 0 where each event decides."""
    if not otherwise.edges or not then.edges:
        holds = bool(then.edges)
        f.b.start(then if holds else otherwise)
        return holds
    end, answer = Join(), f.b.variable(hint="test")
    for join, number in ((then, 1), (otherwise, 0)):
        f.b.start(join)
        f.b.write(answer, f.b.const(number))
        f.b.jump(end)
    f.b.start(end)
    found = f.b.read_final(answer)
    f.b.assume_bounds(found, 0, 1)
    return Int(found, S64)
