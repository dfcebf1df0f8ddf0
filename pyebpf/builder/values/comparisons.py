"""Comparisons of operands: `==`, `<`, `in`, `min` and `max`, also of tuples, element by element."""

from __future__ import annotations

import functools
import operator as python
from collections.abc import Callable, Iterable, MappingView, Sequence, Set as AbstractSet, ValuesView
from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import All, Always, Any as AnyOf, Test, negate
from pyebpf.builder.values import integers
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.integers import MIRRORED, Int, constant
from pyebpf.builder.values.operations import any_in_turn, binary, evaluated, holds_entities, rvalue, to_int, yields
from pyebpf.builder.values.optional import Maybe
from pyebpf.builder.values.own_methods import COMPARING, CONTAINING, check_own
from pyebpf.builder.values.references import Reference
from pyebpf.builder.values.strings import StringSource
from pyebpf.builder.values.tuples import TupleReference, TupleValue, elements_of
from pyebpf.types import S64, ArrayType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

#: More values than this, each compared with by an instruction of its own, are a map's work.
_MAX_CANDIDATES = 1024

_COMPARE: dict[str, Callable[[Any, Any], object]] = {
    "<": python.lt,
    "<=": python.le,
    ">": python.gt,
    ">=": python.ge,
    "==": python.eq,
    "!=": python.ne,
}


def compare(p: ProgramBuilder, operator: str, left: object, right: object) -> Test:
    """`left operator right` for == != < <= > >=."""
    left, right = rvalue(p, left), rvalue(p, right)
    if not holds_entities(left) and not holds_entities(right):
        return Always(bool(evaluated(p, _COMPARE[operator], left, right)))
    check_own(p, (left, right), COMPARING)
    if isinstance(left, (tuple, list)) or isinstance(right, (tuple, list)):
        return _sequences(p, operator, left, right)
    if left is None or right is None:
        p.fail(f"{describe(right if left is None else left)} is compared with None by `is None`, not by {operator}")
    reflected = not isinstance(left, Entity) or yields(left, right)
    asked = right if reflected else left
    assert isinstance(asked, Entity)
    if isinstance(asked, (TupleValue, TupleReference)):
        return _sequences(p, operator, left, right)
    return asked.compare(p, operator, left if reflected else right, reflected=reflected)


def compare_in_chain(p: ProgramBuilder, operator: str, left: object, right: object) -> Test:
    """One part of `low <= number < high`, of which the number's type may decide one end: 0 of an unsigned type."""
    left, right = rvalue(p, left), rvalue(p, right)
    number, sign, limit = (right, MIRRORED[operator], left) if isinstance(left, int) else (left, operator, right)
    if isinstance(number, Int) and number.literal is None and isinstance(limit, int) and number.answer(sign, limit):
        return Always(holds=True)
    return compare(p, operator, left, right)


def contains(p: ProgramBuilder, item: object, container: object) -> Test:
    """`item in container`."""
    item = rvalue(p, item)
    if isinstance(container, Maybe):
        container = container.to_rvalue(p)
    if isinstance(container, (TupleValue, TupleReference)):
        return _in_elements(p, item, (container if isinstance(container, TupleValue) else container.taken(p)).elements)
    if isinstance(container, Entity):
        return container.contains(p, item)
    if not holds_entities(item) and not holds_entities(container):
        return Always(bool(evaluated(p, python.contains, container, item)))
    mapping = getattr(container, "_mapping", None) if isinstance(container, MappingView) else None
    check_own(p, (container, mapping), CONTAINING)
    if isinstance(container, range):
        return _in_range(p, item, container)
    if isinstance(container, str):
        return _in_literal(p, item, container)
    if isinstance(container, (AbstractSet, dict)):
        # A set's order changes from run to run; the code must not.
        container = sorted(container, key=lambda element: (str(type(element)), repr(element)))
    if isinstance(container, (list, tuple, ValuesView)):
        if len(container) > _MAX_CANDIDATES:
            p.fail(
                f"{len(container):,} values are too many to be compared with at run time, at most "
                f"{_MAX_CANDIDATES:,}: keep them in a bpf.hash, `x in m`, or test the ends of a range of them"
            )
        return _in_elements(p, item, container)
    p.fail(f"{describe(item)} in {container!r}: give a tuple, list, set, range, str or a map")


def _in_literal(p: ProgramBuilder, item: object, literal: str) -> Test:
    """Whether a character is one of a literal's."""
    if isinstance(item, integers.Character):
        return AnyOf(tuple(compare(p, "==", item, character) for character in dict.fromkeys(literal)))
    words = literal.split()
    meant = f"in {tuple(words)!r}" if len(words) > 1 else f"== {literal!r}"
    p.fail(
        f"{describe(item)} in {literal!r} would ask whether it is a substring, which is known only at "
        f"run time: write {meant}"
    )


def _in_range(p: ProgramBuilder, item: object, values: range) -> Test:
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


def minimum(p: ProgramBuilder, *operands: object) -> object:
    """`min(a, b, …)`, or of one container known at compile time."""
    return _extreme(p, "min", "<=", operands)


def maximum(p: ProgramBuilder, *operands: object) -> object:
    """`max(a, b, …)`, or of one container known at compile time."""
    return _extreme(p, "max", ">=", operands)


def _extreme(p: ProgramBuilder, name: str, operator: str, operands: tuple[object, ...]) -> object:
    if len(operands) == 1 and isinstance(operands[0], Iterable) and not isinstance(operands[0], (Entity, Test)):
        operands = tuple(operands[0])
    settled_operands = [rvalue(p, operand) for operand in operands]
    if len(settled_operands) == 1:
        elements = elements_of(_taken(p, settled_operands[0]))
        if elements is not None:
            settled_operands = [rvalue(p, element) for element in elements]
    if not any(map(holds_entities, settled_operands)):
        return evaluated(p, min if name == "min" else max, settled_operands)
    if any(elements_of(_taken(p, operand)) is not None for operand in settled_operands):
        sign = "<" if name == "min" else ">"
        p.fail(f"{name}() is for numbers at run time: of two tuples write `b if b {sign} a else a`")
    best = to_int(p, settled_operands[0])
    if len(settled_operands) == 1:
        p.fail(f"{name}() of one number is that number: give two or more, or a tuple")
    for operand in settled_operands[1:]:
        best = integers.choose(p, operator, best, to_int(p, operand))
    return best


def _sequences(p: ProgramBuilder, operator: str, left: object, right: object) -> Test:
    """`left operator right`, where one of them is a tuple or a list."""
    left, right = _taken(p, left), _taken(p, right)
    if operator in ("==", "!="):
        same = _equal(p, left, right)
        return same if operator == "==" else negate(same)
    return _ordered(p, operator, left, right)


def _in_elements(p: ProgramBuilder, item: object, container: Iterable[object]) -> Test:
    """`item in container`, where the item or some of the elements are known only at run time."""
    candidates = [_taken(p, each) for each in container]
    item = read_once(p, _taken(p, item), candidates)
    joined = _any if _in_registers(item) and _in_registers(candidates) else functools.partial(any_in_turn, p)
    if elements_of(item) is None:
        return joined(compare(p, "==", item, each) for each in candidates)
    fitting = [each for each in candidates if _why_never(item, each) is None]
    if candidates and not fitting:
        p.fail(f"{_why_never(item, candidates[0])}: nothing in {_short(candidates)} can be it")
    return joined(_equal(p, item, each) for each in fitting)


def _in_registers(value: object) -> bool:
    """Whether a comparison of a value loads nothing."""
    elements = elements_of(value)
    return not isinstance(value, Reference) if elements is None else all(map(_in_registers, elements))


def read_once(p: ProgramBuilder, item: object, others: Sequence[object]) -> object:
    """`item` with its strings read into memory, with room to tell each from what it is compared with."""
    if isinstance(item, StringSource):
        return item.beside(p, others)
    elements = elements_of(item)
    if elements is None:
        return item
    alike = [found for found in map(elements_of, others) if found is not None and len(found) == len(elements)]
    read = [read_once(p, each, [other[i] for other in alike]) for i, each in enumerate(elements)]
    return read if isinstance(item, list) else tuple(read)


def _short(candidates: Sequence[object]) -> str:
    shown = describe(list(candidates))
    return shown if len(shown) <= 60 else f"{shown[:56]} …]"


def _why_never(left: object, right: object) -> str | None:
    """Why two values are not compared, one of which is a tuple or a list: most are never equal; None if they may be."""
    one, other = elements_of(left), elements_of(right)
    if one is None or other is None:
        if any(isinstance(getattr(each, "type", None), ArrayType) for each in (left, right)):
            shown = "x == y for x, y in zip(…, …)"
            return f"{describe(left)} is not compared with {describe(right)} as a whole: write all({shown})"
        return f"{describe(left)} is never equal to {describe(right)}"
    if isinstance(one, list) != isinstance(other, list):
        return f"{describe(left)} is never equal to {describe(right)}, as a tuple is not a list: write tuple(…)"
    if len(one) != len(other):
        return f"a tuple of {len(one)} is never equal to one of {len(other)}"
    return None


def _taken(p: ProgramBuilder, value: object) -> object:
    """A tuple in memory as its elements; anything else as it is."""
    return value.taken(p) if isinstance(value, TupleReference) else value


def _equal(p: ProgramBuilder, left: object, right: object) -> Test:
    check_own(p, (left, right), COMPARING)
    left, right = _taken(p, left), _taken(p, right)
    one, other = elements_of(left), elements_of(right)
    if one is None and other is None:
        return _element_equal(p, left, right)
    reason = _why_never(left, right)
    if reason is not None:
        p.fail(reason)
    assert one is not None
    assert other is not None
    tests: list[Test] = []
    # What is known at compile time first: where that decides, nothing is built.
    pairs = sorted(zip(one, other, strict=True), key=lambda pair: _is_built(pair[0]) or _is_built(pair[1]))
    for first, second in pairs:
        test = _equal(p, first, second)
        if isinstance(test, Always):
            if not test.holds:
                return test
        else:
            tests.append(test)
    return _all(tests)


def _is_built(value: object) -> bool:
    elements = elements_of(value)
    return isinstance(value, (Entity, Test)) if elements is None else any(map(_is_built, elements))


def _element_equal(p: ProgramBuilder, left: object, right: object) -> Test:
    if left is None or right is None:
        other = right if left is None else left
        if not isinstance(other, Entity):
            return Always(other is None)
        never = type(other).is_none is Entity.is_none or (
            isinstance(other, Reference) and other.lvalue.null_check is None
        )
        return Always(holds=False) if never else other.is_none(p)
    return compare(p, "==", left, right)


def _ordered(p: ProgramBuilder, operator: str, left: object, right: object) -> Test:
    """By the first elements that differ; where none does, the shorter one is less."""
    one, other = elements_of(left), elements_of(right)
    if one is None or other is None or isinstance(one, list) != isinstance(other, list):
        p.fail(f"{describe(left)} cannot be compared with {describe(right)} by {operator}")
    strict = operator[0]
    common = min(len(one), len(other))
    found = compare(p, operator, len(one), len(other))
    for number, (first, second) in reversed(list(enumerate(zip(one, other, strict=False)))):
        if number == common - 1 and len(one) == len(other):
            found = _exact(p, operator, first, second)
        else:
            found = _any((_exact(p, strict, first, second), _all((_exact(p, "==", first, second), found))))
    return found


def _exact(p: ProgramBuilder, operator: str, left: object, right: object) -> Test:
    """A comparison of two elements, even one that a type decides: the next ones may be what matters."""
    if elements_of(left) is not None or elements_of(right) is not None:
        return _sequences(p, operator, left, right)
    left, right = rvalue(p, left), rvalue(p, right)
    if isinstance(left, Int) and isinstance(right, int):
        return left.compare(p, operator, constant(p, right))
    if isinstance(left, int) and isinstance(right, Int):
        return right.compare(p, operator, constant(p, left), reflected=True)
    return compare(p, operator, left, right)


def _all(tests: Iterable[Test]) -> Test:
    open_tests = []
    for test in tests:
        if not isinstance(test, Always):
            open_tests.append(test)
        elif not test.holds:
            return test
    if not open_tests:
        return Always(holds=True)
    return open_tests[0] if len(open_tests) == 1 else All(tuple(open_tests))


def _any(tests: Iterable[Test]) -> Test:
    open_tests = []
    for test in tests:
        if not isinstance(test, Always):
            open_tests.append(test)
        elif test.holds:
            return test
    if not open_tests:
        return Always(holds=False)
    return open_tests[0] if len(open_tests) == 1 else AnyOf(tuple(open_tests))
