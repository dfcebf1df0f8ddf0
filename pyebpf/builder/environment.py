"""What is known at one point of a function under construction: variables' values and facts about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.compiler.ir import Kind, Value

__all__ = ["S64_MAX", "S64_MIN", "Environment", "Interval", "Variable", "hull"]

S64_MIN, S64_MAX = -(1 << 63), (1 << 63) - 1

#: Inclusive bounds of a value read as s64.
Interval = tuple[int, int]


class Variable:
    """A mutable place of the source program, compared by identity; SSA values stand for it, a different one after each write."""

    __slots__ = ("hint", "kind")

    def __init__(self, kind: Kind, hint: str = "") -> None:
        self.kind = kind
        self.hint = hint


@dataclass(slots=True)
class Environment:
    """Variables and facts at one point.

    `values` holds the variables assigned on every path to here. `present` are the numbers of addresses known not to
    be NULL on every path; `bounds` intervals, read as s64, that hold on every path; `gone` addresses that some path
    has made invalid, with the reason.
    """

    values: dict[Variable, Value] = field(default_factory=dict)
    present: set[int] = field(default_factory=set)
    bounds: dict[int, Interval] = field(default_factory=dict)
    gone: dict[int, str] = field(default_factory=dict)

    def copy(self) -> Environment:
        """Return an independent copy."""
        return Environment(dict(self.values), set(self.present), dict(self.bounds), dict(self.gone))

    def narrow(self, value: Value, low: int = S64_MIN, high: int = S64_MAX) -> None:
        """Add the fact that `value`, read as s64, lies between `low` and `high`."""
        old_low, old_high = self.bounds.get(value.number, (S64_MIN, S64_MAX))
        low, high = max(low, old_low), min(high, old_high)
        if low <= high and (low, high) != (S64_MIN, S64_MAX):
            self.bounds[value.number] = (low, high)


def hull(intervals: Sequence[Interval | None]) -> Interval | None:
    """Return the smallest interval around all of them; None if one is unknown."""
    known = [interval for interval in intervals if interval is not None]
    if not known or len(known) < len(intervals):
        return None
    return min(low for low, _ in known), max(high for _, high in known)
