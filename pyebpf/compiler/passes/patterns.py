"""Patterns of rewriting rules: what an operand must be, and the name under which the rule gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.compiler.arithmetic import MASK
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.compiler.ir import Op, Value
    from pyebpf.compiler.passes.rewriting import Rewriter

#: What a rule gets, by name.
Bindings = dict[str, Any]


@dataclass(frozen=True, slots=True, guarded=False)
class Pattern:
    """One operand of a rule.

    `match` says whether a value matches, and binds what it names. `constant` says what is known of all values that do:
    they are constants, they are not, or None.
    """

    match: Callable[[Rewriter, Value, Bindings], bool]
    constant: bool | None = None


def ANY(name: str) -> Pattern:  # noqa: N802 - patterns are written as constants of the rule language
    """Any value."""

    def match(rewriter: Rewriter, value: Value, bindings: Bindings) -> bool:  # noqa: ARG001 - a pattern's signature
        bindings[name] = value
        return True

    return Pattern(match)


ANYTHING = Pattern(lambda rewriter, value, bindings: True)  # noqa: ARG005 - a pattern's signature
"""Any value, not bound."""


def SAME(name: str) -> Pattern:  # noqa: N802 - as above
    """The value that `name` was bound to before."""

    def match(rewriter: Rewriter, value: Value, bindings: Bindings) -> bool:  # noqa: ARG001 - a pattern's signature
        return bool(bindings[name].number == value.number)

    return Pattern(match)


def CONST(name: str) -> Pattern:  # noqa: N802 - as above
    """Any constant, bound as an int from 0 to 2^64-1."""

    def match(rewriter: Rewriter, value: Value, bindings: Bindings) -> bool:
        number = rewriter.number(value)
        bindings[name] = number
        return number is not None

    return Pattern(match, constant=True)


def NUMBER(*numbers: int) -> Pattern:  # noqa: N802 - as above
    """One of these constants, given signed or unsigned."""
    wanted = frozenset(number & MASK for number in numbers)

    def match(rewriter: Rewriter, value: Value, bindings: Bindings) -> bool:  # noqa: ARG001 - a pattern's signature
        return rewriter.number(value) in wanted

    return Pattern(match, constant=True)


def POWER_OF_TWO(name: str) -> Pattern:  # noqa: N802 - as above
    """A constant 2**k of at least 2, bound as k."""

    def match(rewriter: Rewriter, value: Value, bindings: Bindings) -> bool:
        number = rewriter.number(value)
        if number is None or number < 2 or number & (number - 1):
            return False
        bindings[name] = number.bit_length() - 1
        return True

    return Pattern(match, constant=True)


def BELOW(name: str, bits: int) -> Pattern:  # noqa: N802 - as above
    """A value known to be below 2**bits."""

    def match(rewriter: Rewriter, value: Value, bindings: Bindings) -> bool:
        bindings[name] = value
        return rewriter.bits(value) <= bits

    return Pattern(match)


def OF(op: Op, *patterns: Pattern, size: str = "") -> Pattern:  # noqa: N802 - as above
    """The result of an op that computes something, whose operands match; `size` binds its size."""
    matches = [pattern.match for pattern in patterns]

    def match(rewriter: Rewriter, value: Value, bindings: Bindings) -> bool:
        definition = rewriter.definitions.get(value.number)
        if definition is None or definition.op is not op:
            return False
        if size:
            bindings[size] = definition.size
        for inner, operand in zip(matches, definition.operands, strict=True):
            if not inner(rewriter, operand, bindings):
                return False
        return True

    return Pattern(match, constant=False)
