"""Intervals through arithmetic: what is known of a result when its operands' bounds are known.

Intervals are inclusive and read values as s64, whatever their type. A function returns None where the exact result
could leave s64: then nothing is known of the wrapped one.
"""

from __future__ import annotations

import operator as python
from typing import TYPE_CHECKING

from pyebpf.builder.ssa.environment import S64_MAX, S64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.ssa.environment import Interval

_U64_MAX = (1 << 64) - 1

#: With both sides of the range fixed, each relation is monotone or a question of membership.
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "<": python.lt,
    "<=": python.le,
    ">": python.gt,
    ">=": python.ge,
}


def _inside(low: int, high: int) -> Interval | None:
    return (low, high) if low >= S64_MIN and high <= S64_MAX else None


def arithmetic(operator: str, left: Interval, right: Interval) -> Interval | None:
    """Bounds of `left operator right` for + - * & | ^."""
    (a, b), (c, d) = left, right
    match operator:
        case "+":
            return _inside(a + c, b + d)
        case "-":
            return _inside(a - d, b - c)
        case "*":
            corners = (a * c, a * d, b * c, b * d)
            return _inside(min(corners), max(corners))
        case "&":
            # A mask that is not negative clears the sign.
            masks = [high for low, high in (left, right) if low >= 0]
            return (0, min(masks)) if masks else None
        case _:
            if a < 0 or c < 0:
                return None
            widest = (1 << max(b, d).bit_length()) - 1
            return (max(a, c) if operator == "|" else 0, widest)


def shift(operator: str, value: Interval, count: Interval | None, *, unsigned: bool) -> Interval | None:
    """Bounds of a shift; `count` has those of its count, inside 0 to 63, or is None where nothing is known of it."""
    low, high = value
    least, most = count or (0, 63)
    if operator == "<<":
        ends = [end << by for end in (low, high) for by in (least, most)]
        return _inside(min(ends), max(ends)) if count else None
    if unsigned and low < 0:
        # The upper half of u64: read as s64 it is negative until a zero comes in.
        return (0, _U64_MAX >> least) if least else None
    ends = [end >> by for end in (low, high) for by in (least, most)]
    return min(ends), max(ends)


def quotient(left: Interval, right: Interval, *, unsigned: bool) -> Interval | None:
    """Bounds of the floor quotient by a divisor that is never negative; by 0 it is 0."""
    (low, high), (least, most) = left, right
    if unsigned and low < 0:
        if most < 0:
            return (0, 1)
        return (0, _U64_MAX // least) if least > 1 else None
    if least < 0:
        # The upper half of u64, read as s64: the quotient by all of it is at most 1. By any other divisor it is no
        # greater than the dividend.
        return (0, min(high, 1) if most < 0 else high) if unsigned else None
    divisors = (max(least, 1), max(most, 1))
    corners = [n // d for n in (low, high) for d in divisors] + ([0] if least == 0 else [])
    return min(corners), max(corners)


def remainder(left: Interval, right: Interval, *, unsigned: bool) -> Interval | None:
    """Bounds of the floor remainder by a divisor that is never negative; by 0 it is the dividend."""
    (low, high), (least, most) = left, right
    if unsigned and least < 0 <= low:
        return (0, high)
    if least < 0 or (least == 0 and low < 0):
        return None
    if least == 0:
        return (0, high)
    return (0, min(most - 1, high) if low >= 0 else most - 1)


def always(operator: str, low: int, high: int, number: int) -> bool | None:
    """Whether `x operator number` has one answer for every x from `low` to `high`; None if it depends."""
    if operator in ("==", "!="):
        return None if low <= number <= high else operator == "!="
    first, last = _RELATIONS[operator](low, number), _RELATIONS[operator](high, number)
    return first if first == last else None
