"""What the operators and the built-in functions of Python do to operands: entities, tests and plain Python values.

Where every operand is known while compiling, Python itself answers and nothing is built. Otherwise the left entity is
asked, or the right one with its sides exchanged.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Iterable, Sequence, Set as AbstractSet, ValuesView
from typing import TYPE_CHECKING, Any

from pyebpf.builder import integers
from pyebpf.builder.conditions import All, Always, Any as AnyOf, Compare, Test, negate
from pyebpf.builder.entity import Entity, describe
from pyebpf.builder.function import Join
from pyebpf.builder.integers import Int
from pyebpf.builder.memory import Space
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.errors import OnlyInProbe
from pyebpf.types import BOOL, S64, IntType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type

__all__ = [
    "absolute",
    "any_in_turn",
    "binary",
    "compare",
    "contains",
    "convert",
    "holds_entities",
    "is_none",
    "length",
    "load",
    "maximum",
    "minimum",
    "store",
    "to_int",
    "truth",
    "unary",
]

#: More values than this, each compared with by an instruction of its own, are a map's work.
_MOST_CANDIDATES = 1024

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
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
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": python.lt,
    "<=": python.le,
    ">": python.gt,
    ">=": python.ge,
    "==": python.eq,
    "!=": python.ne,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"-": python.neg, "+": python.pos, "~": python.invert}


def settled(p: ProgramBuilder, operand: Any) -> Any:
    """Return what an operator computes with: a test's number, what may be None once it was checked not to be."""
    if isinstance(operand, Always):
        return operand.holds
    if isinstance(operand, Test):
        return Int(p.b.truth_value(operand), S64, BOOL)
    settle = getattr(operand, "settle", None) if isinstance(operand, Entity) else None
    return operand if settle is None else settle(p)


def _evaluate(p: ProgramBuilder, function: Callable[..., Any], *operands: Any) -> Any:
    try:
        return function(*operands)
    except OnlyInProbe as error:
        p.fail(str(error))
    except (TypeError, ValueError, ArithmeticError) as error:
        p.fail(f"while compiling, Python says: {error}")


def binary(p: ProgramBuilder, operator: str, left: Any, right: Any) -> Any:
    """`left operator right` for + - * / // % ** @ << >> & | ^."""
    left, right = settled(p, left), settled(p, right)
    if not isinstance(left, Entity) and not isinstance(right, Entity):
        return _evaluate(p, _BINARY[operator], left, right)
    if isinstance(left, Entity) and not _yields(left, right):
        return left.binary(p, operator, right)
    return right.binary(p, operator, left, reflected=True)


def _yields(left: Any, right: Any) -> bool:
    """Whether the right entity knows better: an address next to a number."""
    return isinstance(left, Int) and isinstance(right, Entity) and not isinstance(right, Int)


def unary(p: ProgramBuilder, operator: str, operand: Any) -> Any:
    """`-x`, `+x`, `~x`, and `not x`, which gives a test (or a bool)."""
    if operator == "not":
        test = negate(truth(p, operand))
        return test.holds if isinstance(test, Always) else test
    operand = settled(p, operand)
    if isinstance(operand, Entity):
        return operand.unary(p, operator)
    return _evaluate(p, _UNARY[operator], operand)


def compare(p: ProgramBuilder, operator: str, left: Any, right: Any) -> Test:
    """`left operator right` for == != < <= > >=."""
    left, right = settled(p, left), settled(p, right)
    if not holds_entities(left) and not holds_entities(right):
        return Always(bool(_evaluate(p, _COMPARE[operator], left, right)))
    if isinstance(left, tuple | list) or isinstance(right, tuple | list):
        from pyebpf.builder import tuples

        return tuples.compare(p, operator, left, right)
    if left is None or right is None:
        p.fail(f"{describe(right if left is None else left)} is compared with None by `is None`, not by {operator}")
    if isinstance(left, Entity) and not _yields(left, right):
        return left.compare(p, operator, right)
    asked: Entity = right
    return asked.compare(p, operator, left, reflected=True)


def truth(p: ProgramBuilder, operand: Any) -> Test:
    """`if operand`."""
    if isinstance(operand, Test):
        return operand
    if isinstance(operand, Entity):
        return operand.truth(p)
    return Always(bool(operand))


def is_none(p: ProgramBuilder, operand: Any) -> Test:
    """`operand is None`."""
    if isinstance(operand, Entity):
        return operand.is_none(p)
    return Always(operand is None)


def contains(p: ProgramBuilder, item: Any, container: Any) -> Test:
    """`item in container`."""
    item = settled(p, item)
    if isinstance(container, Entity):
        return container.contains(p, item)
    if not holds_entities(item) and not holds_entities(container):
        return Always(bool(_evaluate(p, lambda: item in container)))
    if isinstance(container, range):
        return _in_range(p, item, container)
    from pyebpf.builder import tuples

    if isinstance(container, str):
        return _in_literal(p, item, container)
    if isinstance(container, AbstractSet | dict):
        # A set's order changes from run to run; the code must not.
        container = sorted(container, key=lambda element: (str(type(element)), repr(element)))
    if isinstance(container, (list, tuple, ValuesView)):
        if len(container) > _MOST_CANDIDATES:
            p.fail(
                f"{len(container):,} values are too many to be compared with on each event, at most "
                f"{_MOST_CANDIDATES:,}: keep them in a bpf.hash, `x in m`, or test the ends of a range of them"
            )
        return tuples.contains(p, item, container)
    p.fail(f"{describe(item)} in {container!r}: give a tuple, list, set, range, str or a map")


def holds_entities(value: Any) -> bool:
    """Whether a value is the builder's, or has such a one in it: the answers of Python's operators are not for it."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_entities, value))
    return isinstance(value, (Entity, Test))


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
    value = b.take(answer)
    b.assume_bounds(value, 0, 1)
    return Compare(Relation.NE, value, b.const(0))


def _in_literal(p: ProgramBuilder, item: Any, literal: str) -> Test:
    """Whether a character is one of a literal's."""
    if isinstance(item, integers.Character):
        return AnyOf(tuple(compare(p, "==", item, character) for character in dict.fromkeys(literal)))
    words = literal.split()
    meant = f"in {tuple(words)!r}" if len(words) > 1 else f"== {literal!r}"
    p.fail(
        f"{describe(item)} in {literal!r} would ask whether it is a piece of that text, which only each event could "
        f"tell: write {meant}"
    )


def _in_range(p: ProgramBuilder, item: Any, values: range) -> Test:
    if not values:
        return Always(holds=False)
    number = to_int(p, item)
    low, high = min(values[0], values[-1]), max(values[0], values[-1])
    held_low, held_high = number.limits
    tests: list[Test] = []
    # Only the ends that the type itself does not keep to: a comparison that is always true is an error elsewhere.
    if held_low < low:
        tests.append(integers.relation(p, ">=", number, integers.constant(p, low)))
    if held_high > high:
        tests.append(integers.relation(p, "<=", number, integers.constant(p, high)))
    step = abs(values.step)
    if step != 1:
        distance = binary(p, "-", number.convert(p, S64), low)
        tests.append(compare(p, "==", binary(p, "%", distance, step), 0))
    return All(tuple(tests))


def to_int(p: ProgramBuilder, operand: Any) -> Int:
    """Return an operand as a number."""
    operand = settled(p, operand)
    found = integers.number(p, operand)
    if found is None:
        p.fail(f"{describe(operand)} is no number")
    return found


def convert(p: ProgramBuilder, type_: IntType, operand: Any) -> Any:
    """`T(operand)`: the low bits, read back by T's sign. A constant that does not fit is an error."""
    operand = settled(p, operand)
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


def length(p: ProgramBuilder, operand: Any) -> Any:
    """`len(operand)`."""
    if isinstance(operand, Entity):
        return operand.length(p)
    return _evaluate(p, len, operand)


def minimum(p: ProgramBuilder, *operands: Any) -> Any:
    """`min(a, b, …)`, or of one container known while compiling."""
    return _extreme(p, "min", "<=", operands)


def maximum(p: ProgramBuilder, *operands: Any) -> Any:
    """`max(a, b, …)`, or of one container known while compiling."""
    return _extreme(p, "max", ">=", operands)


def _extreme(p: ProgramBuilder, name: str, operator: str, operands: tuple[Any, ...]) -> Any:
    if len(operands) == 1 and isinstance(operands[0], Iterable) and not isinstance(operands[0], Entity | Test):
        operands = tuple(operands[0])
    settled_operands = [settled(p, operand) for operand in operands]
    if len(settled_operands) == 1 and isinstance(settled_operands[0], Entity):
        settled_operands = [settled(p, element) for element in _elements(p, settled_operands[0])]
    if not any(map(holds_entities, settled_operands)):
        return _evaluate(p, min if name == "min" else max, settled_operands)
    best = to_int(p, settled_operands[0])
    if len(settled_operands) == 1:
        p.fail(f"{name}() of one number is that number: give two or more, or a tuple")
    for operand in settled_operands[1:]:
        best = integers.choose(p, operator, best, to_int(p, operand))
    return best


def _elements(p: ProgramBuilder, operand: Entity) -> Sequence[Any]:
    """Return those of a tuple; anything else is one by itself."""
    from pyebpf.builder.tuples import TupleReference, TupleValue

    if isinstance(operand, TupleReference):
        operand = operand.taken(p)
    return operand.elements if isinstance(operand, TupleValue) else [operand]


def absolute(p: ProgramBuilder, operand: Any) -> Any:
    """`abs(operand)`."""
    operand = settled(p, operand)
    if isinstance(operand, Entity):
        return to_int(p, operand).absolute(p)
    return _evaluate(p, abs, operand)


def store(p: ProgramBuilder, address: ir.Value, offset: int, type_: Type, value: Any) -> None:
    """Write an operand to memory as a value of `type_`, every byte of it, padding as zeros.

    Numbers are cut to their low bits; a constant that does not fit is an error. Records, strings and arrays are
    copied.
    """
    from pyebpf.builder.writing import write

    write(p, address, offset, type_, value)


def load(
    p: ProgramBuilder,
    address: ir.Value,
    offset: int,
    type_: Type,
    *,
    foreign: bool = False,
    space: Space = Space.KERNEL,
) -> Any:
    """Return what stands in memory as a value of `type_`: a number is read now, anything else is a reference.

    `foreign` and `space` are as for `Place`.
    """
    from pyebpf.builder.places import Place
    from pyebpf.builder.reading import read

    return read(p, Place(base=address, offset=offset, foreign=foreign, space=space), type_)
