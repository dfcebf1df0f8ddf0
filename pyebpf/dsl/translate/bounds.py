"""Whether a `while` ends: shown by a counter that each iteration moves toward a bound, or seen to by the kernel."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pyebpf.builder.ssa.environment import S64_MAX, S64_MIN
from pyebpf.builder.values.integers import Int
from pyebpf.dataclass import dataclass
from pyebpf.dsl.scope import MISSING
from pyebpf.dsl.translate.assigned import assigned_names
from pyebpf.types import U64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.dsl.translate.frame import Frame

#: The verifier walks every iteration; more than this it would not finish.
MAX_COUNTED = 1 << 16

_SWAPPED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.NotEq: ast.NotEq}


def leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body leaves the loop or the function in its first iteration, as its last statement shows."""
    if any(_goes_on(statement) for statement in statements):
        return False
    match statements[-1]:
        case ast.Return() | ast.Break():
            return True
        case ast.If(body=body, orelse=orelse):
            return bool(orelse) and leaves(body) and leaves(orelse)
        case _:
            return False


def _goes_on(node: ast.AST) -> bool:
    """Whether a `continue` of the loop around it stands in a statement."""
    if isinstance(node, (ast.For, ast.While)):
        return False
    return isinstance(node, ast.Continue) or any(_goes_on(child) for child in ast.iter_child_nodes(node))


@dataclass(frozen=True)
class Bounded:
    """A `while` whose end the verifier sees. A `counter` is known to lie between where it began and where it ends."""

    counter: str = ""
    low: int = S64_MIN
    high: int = S64_MAX


def bounded(f: Frame, node: ast.While) -> Bounded | None:
    """How the verifier sees the end of a `while`. If it does not, the kernel must be able to cut it off; else refused.

    The test, or one of those that `and` joins, compares a local with a bound that the loop does not change; the body
    moves the local toward it by a constant in every iteration.
    """
    tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
    assigned = set(assigned_names([node.test, *node.body]))
    for test in tests:
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            left, op, right = test.left, type(test.ops[0]), test.comparators[0]
            found = _counts(f, node, left, op, right, assigned)
            if found is None and op in _SWAPPED:
                found = _counts(f, node, right, _SWAPPED[op], left, assigned)
            if found is not None:
                return found
        elif isinstance(test, ast.Name) and _not_negative(f, test.id) and _shrinks(node, test.id):
            return Bounded()
    if f.p.target.has("isa:may_goto"):
        return None
    f.fail(
        "cannot prove that this `while` ends: write `for i in range(n):` where n is an upper "
        "limit, and `if not …: break`",
        node.test,
    )


def _counts(
    f: Frame, node: ast.While, counter: ast.expr, op: type[ast.cmpop], bound: ast.expr, assigned: set[str]
) -> Bounded | None:
    if not isinstance(counter, ast.Name) or op not in _SWAPPED:
        return None
    if any(isinstance(n, ast.Name) and n.id in assigned for n in ast.walk(bound)):
        return None
    if counter.id in assigned_names([node.test]):
        return None
    limits, start = _bounds(f, bound), _bounds(f, counter)
    if _shrinks(node, counter.id) and limits is not None and limits[0] >= 0 and op in (ast.Gt, ast.NotEq):
        # Down to 0, and no further: the test must say no there. -1 shifted right stays -1.
        ends = op is ast.Gt or (limits == (0, 0) and _not_negative(f, counter.id))
        return Bounded() if ends else None
    step = _step(f, node, counter.id)
    if not step or limits is None or start is None:
        return None
    declared = f.annotations.get(counter.id)
    if declared and not declared.minimum <= limits[0] + min(step, 0) <= limits[1] + max(step, 0) <= declared.maximum:
        # It begins again from its type's other end.
        return None
    if op is ast.NotEq and (abs(step) != 1 or (start[1] > limits[0] if step > 0 else start[0] < limits[1])):
        # It must meet the bound, not pass it, nor begin behind it.
        return None
    # The last number that passes the test moves on by one step.
    over = step if op in (ast.LtE, ast.GtE) else step - (1 if step > 0 else -1)
    if step > 0:
        ends = op in (ast.Lt, ast.LtE, ast.NotEq) and (limits[1] - start[0]) // step <= MAX_COUNTED
        low, high = start[0], max(start[1], limits[1] + over)
    else:
        ends = op in (ast.Gt, ast.GtE, ast.NotEq) and (start[1] - limits[0]) // -step <= MAX_COUNTED
        low, high = min(start[0], limits[0] + over), start[1]
    if not ends:
        return None
    return Bounded(counter.id, low, high) if low >= S64_MIN and high <= S64_MAX else Bounded()


def _bounds(f: Frame, node: ast.expr) -> tuple[int, int] | None:
    """Least and greatest value that an expression without effects can have here."""
    match node:
        case ast.Constant(value=int(number)):
            return number, number
        case ast.Name(id=name):
            if name in f.local_names and not f.is_assigned(name):
                return None
            value: object = f.read(name)
            if isinstance(value, Int):
                return f.b.bounds(value.value)
            return (value, value) if isinstance(value, int) and value is not MISSING else None
        case ast.Call(func=ast.Name(id="min"), args=arguments):
            found = [each for argument in arguments if (each := _bounds(f, argument)) is not None]
            return (-(1 << 63), min(high for _, high in found)) if found else None
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            one, other = _bounds(f, left), _bounds(f, right)
            if one is None or other is None:
                return None
            if isinstance(op, ast.Add):
                return one[0] + other[0], one[1] + other[1]
            return one[0] - other[1], one[1] - other[0]
        case ast.Attribute():
            owner = node.value
            if isinstance(owner, ast.Name) and owner.id not in f.local_names:
                held = f.expression(node)
                return (held, held) if isinstance(held, int) else None
            return None
        case _:
            return None


def _step(f: Frame, node: ast.While, name: str) -> int:
    """The number that every iteration adds to a name; 0 if that is not sure."""
    step = 0
    for number, statement in enumerate(node.body):
        match statement:
            case ast.AugAssign(target=ast.Name(id=target), op=ast.Add() | ast.Sub() as op, value=value) if (
                target == name
            ):
                amount = _bounds(f, value)
                if amount is None or amount[0] != amount[1] or step:
                    return 0
                step = amount[0] if isinstance(op, ast.Add) else -amount[0]
                if any(isinstance(n, ast.Continue) for earlier in node.body[:number] for n in ast.walk(earlier)):
                    return 0
            case _ if name in assigned_names([statement]):
                return 0
    return step


def _not_negative(f: Frame, name: str) -> bool:
    """Whether a local is a number that is not below zero here."""
    value = f.read(name) if f.is_assigned(name) else None
    if isinstance(value, Int):
        return value.type == U64 or f.b.bounds(value.value)[0] >= 0
    return isinstance(value, int) and value >= 0


def _shrinks(node: ast.While, name: str) -> bool:
    """Whether every iteration shifts a name toward zero, by >> or by // of a power of two: at most 64 iterations.

    Of any other division verifiers forget what the quotient can be.
    """
    found = False
    for number, statement in enumerate(node.body):
        match statement:
            case ast.AugAssign(
                target=ast.Name(id=target),
                op=ast.RShift() | ast.FloorDiv() as op,
                value=ast.Constant(value=int(amount)),
            ) if target == name and _halves(op, amount):
                if any(isinstance(n, ast.Continue) for earlier in node.body[:number] for n in ast.walk(earlier)):
                    return False
                found = True
            case _ if name in assigned_names([statement]):
                return False
    return found


def _halves(op: ast.operator, amount: int) -> bool:
    if isinstance(op, ast.RShift):
        return 1 <= amount <= 63
    return amount >= 2 and amount & (amount - 1) == 0
