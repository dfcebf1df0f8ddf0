"""Python's operators and built-in functions on operands: entities, tests and plain Python values.

Where every operand is known at compile time, Python itself answers and nothing is built. Otherwise the left entity is
asked, or the right one with its sides exchanged.
"""

from __future__ import annotations

import operator as python
from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import Always, Compare, Test, negate
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values import integers
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.own_methods import check_own
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.errors import OnlyInProbe
from pyebpf.types import BOOL, S64, IntType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyebpf.builder.program import ProgramBuilder

_BINARY: dict[str, Callable[[Any, Any], object]] = {
    "+": python.add,
    "-": python.sub,
    "*": python.mul,
    "/": python.truediv,
    "//": python.floordiv,
    "%": python.mod,
    "**": python.pow,
    "@": python.matmul,
    "<<": python.lshift,
    ">>": python.rshift,
    "&": python.and_,
    "|": python.or_,
    "^": python.xor,
}
_UNARY: dict[str, Callable[[Any], object]] = {"-": python.neg, "+": python.pos, "~": python.invert}


def rvalue(p: ProgramBuilder, operand: object) -> object:
    """Return what an operator computes with: a test's number, what may be None once it was checked not to be."""
    if isinstance(operand, Always):
        return operand.holds
    if isinstance(operand, Test):
        return Int(p.b.truth_value(operand), S64, BOOL)
    to_rvalue = getattr(operand, "to_rvalue", None) if isinstance(operand, Entity) else None
    return operand if to_rvalue is None else to_rvalue(p)


def evaluated(p: ProgramBuilder, function: Callable[..., object], *operands: object) -> object:
    """Return what Python itself answers while compiling."""
    try:
        return function(*operands)
    except OnlyInProbe as error:
        p.fail(str(error))
    except (TypeError, ValueError, ArithmeticError) as error:
        p.fail(f"at compile time, Python says: {error}")


def binary(p: ProgramBuilder, operator: str, left: object, right: object) -> object:
    """`left operator right` for + - * / // % ** @ << >> & | ^."""
    left, right = rvalue(p, left), rvalue(p, right)
    if not isinstance(left, Entity) and not isinstance(right, Entity):
        return evaluated(p, _BINARY[operator], left, right)
    check_own(p, (left, right))
    if isinstance(left, Entity) and not yields(left, right):
        return left.binary(p, operator, right)
    assert isinstance(right, Entity)
    return right.binary(p, operator, left, reflected=True)


def yields(left: object, right: object) -> bool:
    """Whether the right entity knows better: an address next to a number."""
    return isinstance(left, Int) and isinstance(right, Entity) and not isinstance(right, Int)


def unary(p: ProgramBuilder, operator: str, operand: object) -> object:
    """`-x`, `+x`, `~x`, and `not x`, which gives a test (or a bool)."""
    if operator == "not":
        test = negate(truth(p, operand))
        return test.holds if isinstance(test, Always) else test
    operand = rvalue(p, operand)
    if isinstance(operand, Entity):
        return operand.unary(p, operator)
    return evaluated(p, _UNARY[operator], operand)


def truth(p: ProgramBuilder, operand: object) -> Test:
    """`if operand`."""
    if isinstance(operand, Test):
        return operand
    if isinstance(operand, Entity):
        return operand.truth(p)
    return Always(bool(operand))


def is_none(p: ProgramBuilder, operand: object) -> Test:
    """`operand is None`."""
    if isinstance(operand, Entity):
        return operand.is_none(p)
    return Always(operand is None)


def holds_entities(value: object) -> bool:
    """Whether a value is the builder's, or has such a one in it: the answers of Python's operators are not for it."""
    if isinstance(value, (list, tuple)):
        return _has_entities(value, set())
    return isinstance(value, (Entity, Test))


def _has_entities(values: Iterable[object], seen: set[int]) -> bool:
    """The same of a container; one that stands in it more than once is looked into once."""
    for each in values:
        if isinstance(each, (list, tuple)):
            if id(each) not in seen:
                seen.add(id(each))
                if _has_entities(each, seen):
                    return True
        elif isinstance(each, (Entity, Test)):
            return True
    return False


def any_in_turn(p: ProgramBuilder, tests: Iterable[Test]) -> Test:
    """Whether any of the tests holds, built in turn: what one loads is not kept while the others are made."""
    b = p.b
    found, end = Join("found"), Join("looked")
    for test in tests:
        following = Join()
        b.branch(test, found, following)
        b.start(following)
        if not b.reachable:
            break
    if not found.edges:
        return Always(holds=False)
    answer = b.variable(hint="found")
    b.write(answer, b.const(0))
    b.jump(end)
    b.start(found)
    b.write(answer, b.const(1))
    b.jump(end)
    b.start(end)
    value = b.read_final(answer)
    b.assume_bounds(value, 0, 1)
    return Compare(Relation.NE, value, b.const(0))


def to_int(p: ProgramBuilder, operand: object) -> Int:
    """Return an operand as a number."""
    operand = rvalue(p, operand)
    found = integers.number(p, operand)
    if found is None:
        remedy = operand.REMEDIES.get("number") if isinstance(operand, Entity) else None
        p.fail(f"{describe(operand)} is not a number{f': {remedy}' if remedy else ''}")
    return found


def convert(p: ProgramBuilder, type_: IntType, operand: object) -> object:
    """`T(operand)`: the low bits, read back by T's sign. A constant that does not fit is an error."""
    operand = rvalue(p, operand)
    if isinstance(operand, Entity):
        return operand.convert(p, type_)
    if type_.is_bool:
        return bool(operand)
    if not isinstance(operand, int):
        p.fail(f"{type_.name}({operand!r}): give an integer")
    fits(p, type_, operand)
    return int(operand)


def fits(p: ProgramBuilder, type_: IntType, literal: int) -> None:
    """Refuse a constant that the type cannot hold."""
    if not type_.minimum <= literal <= type_.maximum:
        p.fail(f"{literal} does not fit {type_.name}, which holds {type_.minimum} to {type_.maximum}")


def length(p: ProgramBuilder, operand: object) -> object:
    """`len(operand)`."""
    if isinstance(operand, Entity):
        return operand.length(p)
    return evaluated(p, len, operand)


def absolute(p: ProgramBuilder, operand: object) -> object:
    """`abs(operand)`."""
    operand = rvalue(p, operand)
    if isinstance(operand, Entity):
        return to_int(p, operand).absolute(p)
    return evaluated(p, abs, operand)
