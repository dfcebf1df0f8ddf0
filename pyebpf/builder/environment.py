"""What is known at one point of a function under construction: variables' values and facts about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.conditions import Compare
from pyebpf.compiler.ir import Condition as Relation, Kind
from pyebpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.builder.conditions import Test
    from pyebpf.compiler.ir import Value

__all__ = ["S64_MAX", "S64_MIN", "Environment", "Facts", "Interval", "Variable", "hull", "learn", "merge"]

S64_MIN, S64_MAX = -(1 << 63), (1 << 63) - 1

#: Inclusive bounds of a value read as s64.
Interval = tuple[int, int]


class Variable:
    """A mutable place of the source program, by identity; SSA values stand for it, a different one after each write."""

    __slots__ = ("hint", "kind")

    def __init__(self, kind: Kind, hint: str = "") -> None:
        self.kind = kind
        self.hint = hint


@dataclass(slots=True)
class Facts:
    """What holds of values wherever they can be used: it is known where each is defined.

    `bounds` are intervals of numbers read as s64, `present` addresses that are not NULL, `origins` the names of the
    maps that addresses came from.
    """

    bounds: dict[int, Interval] = field(default_factory=dict)
    present: set[int] = field(default_factory=set)
    origins: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Environment:
    """Variables and facts at one point.

    `values` holds the variables assigned on every path to here. What was learnt of values after their definition, by
    the branches taken: `present` are the numbers of addresses known not to be NULL on every path, `bounds` intervals
    that hold on every path, `gone` addresses that some path has made invalid, with the reason. What was learnt may
    contradict itself: then no run comes here.
    """

    facts: Facts = field(default_factory=Facts)
    values: dict[Variable, Value] = field(default_factory=dict)
    present: set[int] = field(default_factory=set)
    bounds: dict[int, Interval] = field(default_factory=dict)
    gone: dict[int, str] = field(default_factory=dict)
    impossible: bool = False

    def copy(self) -> Environment:
        """Return an environment of its own for another path of the same function."""
        values, present, bounds, gone = dict(self.values), set(self.present), dict(self.bounds), dict(self.gone)
        return Environment(self.facts, values, present, bounds, gone, self.impossible)

    def interval(self, number: int) -> Interval | None:
        """Bounds of a value, by its number; None if nothing is known."""
        return self.bounds.get(number) or self.facts.bounds.get(number)

    def is_present(self, number: int) -> bool:
        """Whether an address, by its number, is known not to be NULL."""
        return number in self.present or number in self.facts.present

    def inherit(self, value: Value, source: Value, known: Environment) -> None:
        """Take over, for a value that may be `source` of another environment, why that is gone and where it is from."""
        if source.number in known.gone:
            self.gone.setdefault(value.number, known.gone[source.number])
        origins = self.facts.origins
        if source.number in origins:
            origins[value.number] = origins[source.number]

    def narrow(self, value: Value, low: int = S64_MIN, high: int = S64_MAX, *, always: bool = False) -> None:
        """Add the fact that `value`, read as s64, lies between `low` and `high`, here or `always`."""
        old_low, old_high = self.interval(value.number) or (S64_MIN, S64_MAX)
        low, high = max(low, old_low), min(high, old_high)
        if low > high:
            # What the branch says, for its body; where paths meet again this one counts for nothing.
            self.impossible = True
            low = high = max(S64_MIN, min(low if low > old_high else high, S64_MAX))
        if (low, high) != (old_low, old_high):
            (self.facts.bounds if always else self.bounds)[value.number] = (low, high)


def hull(intervals: Sequence[Interval | None]) -> Interval | None:
    """Return the smallest interval around all of them; None if one is unknown."""
    known = [interval for interval in intervals if interval is not None]
    if not known or len(known) < len(intervals):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def merge(
    environments: Sequence[Environment], new_value: Callable[[Kind, str], Value]
) -> tuple[Environment, list[tuple[Variable, Value]]]:
    """Merge what several paths know. Variables whose values differ get new ones, listed beside.

    Paths that no run takes say nothing of the bounds of numbers.
    """
    first, *others = environments
    facts = first.facts
    taken = [each for each in environments if not each.impossible] or environments
    merged = Environment(facts, impossible=all(each.impossible for each in environments))
    parameters: list[tuple[Variable, Value]] = []
    for variable, value in first.values.items():
        if not all(variable in other.values for other in others):
            continue
        if all(other.values[variable] == value for other in others):
            merged.values[variable] = value
            continue
        joined = new_value(variable.kind, variable.hint)
        merged.values[variable] = joined
        parameters.append((variable, joined))
        if all(e.is_present(e.values[variable].number) for e in environments):
            facts.present.add(joined.number)
        around = hull([e.interval(e.values[variable].number) for e in taken])
        if around is not None:
            facts.bounds[joined.number] = around
        for e in environments:
            merged.inherit(joined, e.values[variable], e)
    merged.present = set.intersection(*(e.present for e in environments))
    # Most bounds are the same on every path, and there may be thousands: only those that differ are looked at.
    first, *others = taken
    merged.bounds = dict(first.bounds)
    for number in {number for other in others for number, _ in first.bounds.items() ^ other.bounds.items()}:
        around = hull([e.interval(number) for e in taken]) if number in first.bounds else None
        if around is not None and around != facts.bounds.get(number):
            merged.bounds[number] = around
        else:
            merged.bounds.pop(number, None)
    for environment in environments:
        merged.gone.update(environment.gone)
    return merged, parameters


#: For each signed relation `v relation c`: what it says of v's (low, high) bounds.
_UPPER = {Relation.SLT: -1, Relation.SLE: 0}
_LOWER = {Relation.SGT: 1, Relation.SGE: 0}


def learn(environment: Environment, fact: Test) -> None:
    """Add what a comparison that holds says of the bounds of its sides, and of an address compared with NULL."""
    if not isinstance(fact, Compare):
        return
    left, right = environment.interval(fact.left.number), environment.interval(fact.right.number)
    if right == (0, 0) and fact.relation is Relation.NE and (fact.presence or fact.left.kind is Kind.POINTER):
        environment.present.add(fact.left.number)
    if fact.guards is not None and fact.relation is Relation.ULE:
        environment.present.add(fact.guards.number)
    low, high = (S64_MIN, S64_MAX) if right is None else right
    relation = fact.relation
    if relation is Relation.EQ and right is not None:
        environment.narrow(fact.left, low, high)
    elif relation in _UPPER and right is not None:
        environment.narrow(fact.left, high=high + _UPPER[relation])
    elif relation in _LOWER and right is not None:
        environment.narrow(fact.left, low=low + _LOWER[relation])
    elif relation in (Relation.ULT, Relation.ULE) and right is not None and low >= 0:
        # Below a number without the top bit, unsigned: not negative either.
        environment.narrow(fact.left, 0, high - (relation is Relation.ULT))
    elif (
        relation in (Relation.UGT, Relation.UGE)
        and left is not None
        and left[0] >= 0
        and right is not None
        and low >= 0
    ):
        environment.narrow(fact.left, low=low + (relation is Relation.UGT))
    # The same for the right side, where the left one bounds it from below or above.
    if left is not None and relation in (Relation.SLT, Relation.SLE):
        environment.narrow(fact.right, low=left[0] - _UPPER[relation])
    elif left is not None and relation in (Relation.SGT, Relation.SGE):
        environment.narrow(fact.right, high=left[1] - _LOWER[relation])
