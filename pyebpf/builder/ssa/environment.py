"""Facts at one point of a function under construction: variables' values, and what holds of them."""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.persistent import PersistentMap
from pyebpf.compiler.ir import Condition as Relation, ValueType
from pyebpf.dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.compiler.ir import Value

V = TypeVar("V")
#: The number of an entry's assignment.
_order = itemgetter(0)

S64_MIN, S64_MAX = -(1 << 63), (1 << 63) - 1

#: Inclusive bounds of a value read as s64.
Interval = tuple[int, int]


class Variable:
    """A mutable place of the source program, by identity; SSA values stand for it, a different one after each write."""

    __slots__ = ("hint", "type")

    def __init__(self, type_: ValueType, hint: str = "") -> None:
        self.type = type_
        self.hint = hint


@dataclass(slots=True, eq=False)
class Origin:
    """A map, or other memory, that addresses came from: their numbers, each with how many were known before it."""

    name: str
    number: int
    addresses: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """Facts of values that hold wherever they can be used: they are known where each is defined.

    `bounds` are intervals of numbers read as s64, `non_null` addresses that are not NULL, `alignments` those of
    addresses that are not multiples of 8, `origins` where addresses came from, by their numbers; `named` has them by
    name. `numbers` are those that this function gave its variables, and `assignments` how often it assigned one that
    had no value.
    """

    bounds: dict[int, Interval] = field(default_factory=dict)
    non_null: set[int] = field(default_factory=set)
    alignments: dict[int, int] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    named: dict[str, Origin] = field(default_factory=dict)
    numbers: dict[Variable, int] = field(default_factory=dict)
    assignments: int = 0

    def origin(self, name: str) -> Origin:
        """Return the origin of that name."""
        if name not in self.named:
            self.named[name] = Origin(name, len(self.named))
        return self.named[name]

    def comes_from(self, number: int, name: str) -> None:
        """Note where an address came from."""
        origin = self.origins[number] = self.origin(name)
        origin.addresses.setdefault(number, len(origin.addresses))


class Values:
    """The variables assigned on every path to a point, and their values, in the order of their first assignment."""

    __slots__ = ("_entries", "_facts")

    def __init__(self, facts: Facts, entries: PersistentMap[tuple[int, Variable, Value]]) -> None:
        self._facts = facts
        #: By the variable's number; with each value when the variable was first assigned on this path.
        self._entries = entries

    def get(self, variable: Variable) -> Value | None:
        """Return the variable's value, or None."""
        entry = self._entries.get(self._facts.numbers.get(variable, -1))
        return None if entry is None else entry[2]

    def __getitem__(self, variable: Variable) -> Value:
        value = self.get(variable)
        if value is None:
            raise KeyError(variable)
        return value

    def __contains__(self, variable: Variable) -> bool:
        return self._entries.get(self._facts.numbers.get(variable, -1)) is not None

    def __iter__(self) -> Iterator[Variable]:
        return (variable for _, variable, _ in sorted(self._entries.values(), key=_order))

    def __setitem__(self, variable: Variable, value: Value) -> None:
        facts = self._facts
        number = facts.numbers.setdefault(variable, len(facts.numbers))
        entry = self._entries.get(number)
        if entry is None:
            facts.assignments += 1
            self._entries = self._entries.with_item(number, (facts.assignments, variable, value))
        elif entry[2] is not value:
            self._entries = self._entries.with_item(number, (entry[0], variable, value))

    def pop(self, variable: Variable) -> Value | None:
        """Leave the variable without a value, and return the one that it had."""
        value = self.get(variable)
        if value is not None:
            self._entries = self._entries.without(self._facts.numbers[variable])
        return value

    def differing(self, others: Sequence[Values]) -> list[Variable]:
        """Variables of these that another of several paths gives another value, or none."""
        found = _differing([self._entries, *[other._entries for other in others]])
        if not found:
            return []
        return [variable for _, variable, _ in sorted(filter(None, map(self._entries.get, found)), key=_order)]


@dataclass(slots=True)
class Environment:
    """Variables and facts at one point.

    `values` holds the variables assigned on every path to here. The rest is learnt of values after their definition, by
    the branches taken. `non_null` has the numbers of addresses known not to be NULL on every path, `bounds` intervals
    that hold on every path. `invalidated_origins` says for an origin, by its number, how many of its first addresses
    some path has made invalid, and why; `invalidated_addresses` says why a single address is. `contradictions` counts
    facts that exclude each other: where there are any, no run comes here.
    """

    facts: Facts
    values: Values
    non_null: PersistentMap[bool]
    bounds: PersistentMap[Interval]
    invalidated_origins: PersistentMap[tuple[int, str]]
    invalidated_addresses: PersistentMap[str]
    contradictions: int = 0

    @classmethod
    def of_function(cls) -> Environment:
        """Return what is known where a function begins: nothing."""
        facts = Facts()
        values = Values(facts, PersistentMap())
        return cls(facts, values, PersistentMap(), PersistentMap(), PersistentMap(), PersistentMap())

    def copy(self) -> Environment:
        """Return an environment of its own for another path of the same function."""
        return Environment(
            self.facts,
            Values(self.facts, self.values._entries),
            self.non_null,
            self.bounds,
            self.invalidated_origins,
            self.invalidated_addresses,
            self.contradictions,
        )

    def interval(self, number: int) -> Interval | None:
        """Bounds of a value, by its number; None if nothing is known."""
        return self.bounds.get(number) or self.facts.bounds.get(number)

    def is_non_null(self, number: int) -> bool:
        """Whether an address, by its number, is known not to be NULL."""
        return number in self.non_null or number in self.facts.non_null

    def invalidate_origin(self, name: str, reason: str) -> None:
        """Add that all addresses of an origin that are known are invalid."""
        origin = self.facts.origin(name)
        self.invalidated_origins = self.invalidated_origins.with_item(origin.number, (len(origin.addresses), reason))

    def invalidated_by(self, number: int) -> str | None:
        """Why an address, by its number, is invalid; None if it is not."""
        origin = self.facts.origins.get(number)
        if origin is not None:
            count, reason = self.invalidated_origins.get(origin.number, (0, ""))
            if origin.addresses[number] < count:
                return reason
        return self.invalidated_addresses.get(number)

    def newly_invalidated(self, before: Environment) -> Iterator[int]:
        """Numbers of addresses that may have become invalid since `before`, on a path from there."""
        yield from self.invalidated_addresses.differing(before.invalidated_addresses)
        changed = set(self.invalidated_origins.differing(before.invalidated_origins))
        for origin in self.facts.named.values() if changed else ():
            if origin.number in changed:
                known, _ = before.invalidated_origins.get(origin.number, (0, ""))
                count, _ = self.invalidated_origins[origin.number]
                yield from islice(origin.addresses, known, count)

    def invalidate(self, number: int, reason: str) -> None:
        """Add that an address, by its number, is invalid."""
        self.invalidated_addresses = self.invalidated_addresses.with_item(number, reason)

    def inherit(self, value: Value, source: Value, known: Environment) -> None:
        """Give a value that may be `source` of another environment its origin, and the reason if it is invalid."""
        reason = known.invalidated_by(source.number)
        if reason is not None and value.number not in self.invalidated_addresses:
            self.invalidate(value.number, reason)
        origin = self.facts.origins.get(source.number)
        if origin is not None:
            self.facts.comes_from(value.number, origin.name)
        alignments, alignment = self.facts.alignments, known.facts.alignments.get(source.number, 8)
        if alignment < alignments.get(value.number, 8):
            alignments[value.number] = alignment

    def narrow(self, value: Value, low: int = S64_MIN, high: int = S64_MAX, *, always: bool = False) -> None:
        """Add the fact that `value`, read as s64, lies between `low` and `high`, here or `always`."""
        old_low, old_high = self.interval(value.number) or (S64_MIN, S64_MAX)
        low, high = max(low, old_low), min(high, old_high)
        if low > high:
            # What the branch says, for its body; where paths meet again this one counts for nothing.
            self.contradictions += 1
            least, most = self.facts.bounds.get(value.number, (S64_MIN, S64_MAX))
            if least == most:
                # A constant stays what it is for its other uses.
                return
            low = high = max(S64_MIN, min(low if low > old_high else high, S64_MAX))
        if (low, high) != (old_low, old_high):
            if always:
                self.facts.bounds[value.number] = (low, high)
            else:
                self.bounds = self.bounds.with_item(value.number, (low, high))


def hull(intervals: Sequence[Interval | None]) -> Interval | None:
    """Return the smallest interval around all of them; None if one is unknown."""
    known = [interval for interval in intervals if interval is not None]
    if not known or len(known) < len(intervals):
        return None
    return min(known)[0], max([high for _, high in known])


def merge(
    environments: Sequence[Environment], new_value: Callable[[ValueType, str], Value]
) -> tuple[Environment, list[tuple[Value, list[Value]]]]:
    """Merge what several paths know. Variables whose values differ get new ones, listed with the paths' own values.

    Paths that no run takes say nothing of the bounds of numbers; of those in code that no run reaches, the ones with
    more contradictions than others.
    """
    first, *others = environments
    facts = first.facts
    fewest = min([each.contradictions for each in environments])
    taken = [each for each in environments if each.contradictions == fewest]
    merged = first.copy()
    merged.contradictions = fewest
    _merge_invalidated(merged, environments)
    parameters: list[tuple[Value, list[Value]]] = []
    for variable in first.values.differing([other.values for other in others]):
        given = [value for each in environments if (value := each.values.get(variable)) is not None]
        if len(given) < len(environments):
            merged.values.pop(variable)
            continue
        if len({value.number for value in given}) == 1:
            continue
        joined = new_value(variable.type, variable.hint)
        merged.values[variable] = joined
        parameters.append((joined, given))
        pairs = list(zip(environments, given, strict=True))
        if first.is_non_null(given[0].number) and all(e.is_non_null(value.number) for e, value in pairs):
            facts.non_null.add(joined.number)
        around = hull([e.interval(value.number) for e, value in pairs if e.contradictions == fewest])
        if around is not None:
            facts.bounds[joined.number] = around
        for e, value in pairs:
            merged.inherit(joined, value, e)
    for each in others:
        if each.non_null is not merged.non_null:
            merged.non_null = merged.non_null.common(each.non_null)
    bounds = merged.bounds = taken[0].bounds
    for number in _differing([each.bounds for each in taken]):
        around = hull([e.interval(number) for e in taken]) if number in bounds else None
        if around is not None and around != facts.bounds.get(number):
            merged.bounds = merged.bounds.with_item(number, around)
        else:
            merged.bounds = merged.bounds.without(number)
    return merged, parameters


def _merge_invalidated(merged: Environment, environments: Sequence[Environment]) -> None:
    """Add what some path has made invalid."""
    addresses, origins = merged.invalidated_addresses, merged.invalidated_origins
    if [e for e in environments if e.invalidated_addresses is not addresses]:
        for number in _differing([each.invalidated_addresses for each in environments]):
            reasons = [e.invalidated_addresses.get(number) for e in reversed(environments)]
            merged.invalidate(number, next(reason for reason in reasons if reason is not None))
    if [e for e in environments if e.invalidated_origins is not origins]:
        for number in _differing([each.invalidated_origins for each in environments]):
            latest = max(e.invalidated_origins.get(number, (0, "")) for e in environments)
            merged.invalidated_origins = merged.invalidated_origins.with_item(number, latest)


def _differing(maps: Sequence[PersistentMap[V]]) -> Collection[int]:
    """Keys that stand for different objects in the first of the mappings and in another."""
    first, found = maps[0], []
    for other in maps:
        if other is not first:
            found += first.differing(other)
    return dict.fromkeys(found) if len(maps) > 2 else found


def invalidated(
    before: Environment, after: Environment, first: int, parameters: Mapping[Variable, Value]
) -> dict[int, str]:
    """Return what an iteration of a loop makes invalid for the next one, with the reasons.

    That is of the values from before the loop, whose numbers are below `first`, and of the loop's own parameters.
    """
    found: dict[int, str] = {}
    for number in after.newly_invalidated(before):
        reason = after.invalidated_by(number)
        if number < first and reason is not None and before.invalidated_by(number) is None:
            found[number] = reason
    for variable, parameter in parameters.items():
        value = after.values.get(variable)
        reason = None if value is None else after.invalidated_by(value.number)
        if reason is not None:
            found[parameter.number] = reason
    return found


#: For each signed relation `v relation c`: what it says of v's (low, high) bounds.
_UPPER = {Relation.SLT: -1, Relation.SLE: 0}
_LOWER = {Relation.SGT: 1, Relation.SGE: 0}


def learn(environment: Environment, fact: Test) -> None:
    """Add what a comparison that holds says of the bounds of its sides, and of an address compared with NULL."""
    if not isinstance(fact, Compare):
        return
    relation, right = fact.relation, environment.interval(fact.right.number)
    if relation is Relation.EQ:
        if right is not None:
            environment.narrow(fact.left, *right)
        return
    if relation is Relation.NE:
        if right == (0, 0) and (fact.null_check or fact.left.type is ValueType.POINTER):
            environment.non_null = environment.non_null.with_item(fact.left.number, value=True)
        return
    if fact.guards is not None and relation is Relation.ULE:
        environment.non_null = environment.non_null.with_item(fact.guards.number, value=True)
    left = environment.interval(fact.left.number)
    low, high = (S64_MIN, S64_MAX) if right is None else right
    if relation in _UPPER and right is not None:
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
