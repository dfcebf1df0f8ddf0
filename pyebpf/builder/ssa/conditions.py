"""Conditions: tests that become branches, without a number in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.dataclass import dataclass
from pyebpf.errors import OnlyInProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyebpf.compiler.ir import Value

#: The relation that holds exactly when the first does not. SET has none.
NEGATED = {
    Relation.EQ: Relation.NE,
    Relation.NE: Relation.EQ,
    Relation.ULT: Relation.UGE,
    Relation.UGE: Relation.ULT,
    Relation.ULE: Relation.UGT,
    Relation.UGT: Relation.ULE,
    Relation.SLT: Relation.SGE,
    Relation.SGE: Relation.SLT,
    Relation.SLE: Relation.SGT,
    Relation.SGT: Relation.SLE,
}


class NoPythonOperators:
    """Refuses Python's own operators, whose answer would be that of an object of the compiler.

    What stands for something known only at run time may lie in a tuple or a dictionary that Python itself is asked
    to compare, search or hash: by identity no two would ever be equal.
    """

    __slots__ = ()

    def describe(self) -> str:
        """Return how messages call it."""
        return type(self).__name__

    def _no_answer(self, operator: str) -> NoReturn:
        msg = f"{self.describe()} is known only at run time, and Python's {operator} would be computed at compile time"
        raise OnlyInProbe(msg)

    def __eq__(self, _other: object) -> bool:
        raise self._no_answer("==")

    def __hash__(self) -> int:
        raise self._no_answer("hash()")

    def __bool__(self) -> bool:
        raise self._no_answer("bool()")

    def __contains__(self, _item: object) -> bool:
        raise self._no_answer("in")

    def __index__(self) -> int:
        raise self._no_answer("index")

    def __iter__(self) -> NoReturn:
        raise self._no_answer("iteration")


class Test(NoPythonOperators):
    """The base of all tests."""

    __slots__ = ()

    def describe(self) -> str:
        return "a condition"


@dataclass(frozen=True, slots=True, eq=False, guarded=False)
class Always(Test):
    """Known at compile time."""

    holds: bool


@dataclass(frozen=True, slots=True, eq=False, guarded=False)
class Compare(Test):
    """`left relation right` on 64 bits.

    `null_check` marks a comparison of an address with 0 that decides whether it is None; `guards` is an address in a
    packet that may be read where `left` is at or below `right`.
    """

    relation: Relation
    left: Value
    right: Value
    null_check: bool = False
    guards: Value | None = None


@dataclass(frozen=True, slots=True, eq=False, guarded=False)
class Not(Test):
    """The opposite of `condition`."""

    condition: Test


@dataclass(frozen=True, slots=True, eq=False, guarded=False)
class All(Test):
    """Every one of `conditions`; their operands are computed already."""

    conditions: tuple[Test, ...]


@dataclass(frozen=True, slots=True, eq=False, guarded=False)
class Any(Test):
    """At least one of `conditions`; their operands are computed already."""

    conditions: tuple[Test, ...]


def negate(test: Test) -> Test:
    """Return the opposite of `test`, in its simplest form."""
    match test:
        case Compare(relation, left, right, null_check, guards) if relation in NEGATED:
            return Compare(NEGATED[relation], left, right, null_check, guards)
        case Always(holds):
            return Always(not holds)
        case Not(condition):
            return condition
        case _:
            return Not(test)


def differing_bits(
    pairs: Iterable[tuple[Value, Value]], binary: Callable[[Op, Value, Value], Value], no_bits: Value
) -> Value:
    """The bits in which any of some numbers differs from the other of its pair; one number to keep, however many."""
    found = no_bits
    for one, other in pairs:
        found = binary(Op.OR, found, binary(Op.XOR, one, other))
    return found


def as_one(test: Test, binary: Callable[[Op, Value, Value], Value], no_bits: Value) -> Test:
    """The same test as one comparison, that of all bits, where it asks whether several scalars equal others."""
    match test:
        case All(parts) | Not(All(parts)) if len(parts) > 1 and all(map(_is_equality, parts)):
            pairs = ((each.left, each.right) for each in parts if isinstance(each, Compare))
            relation = Relation.EQ if isinstance(test, All) else Relation.NE
            return Compare(relation, differing_bits(pairs, binary, no_bits), no_bits)
        case _:
            return test


def _is_equality(test: Test) -> bool:
    return (
        isinstance(test, Compare)
        and test.relation is Relation.EQ
        and test.left.type is test.right.type is ValueType.SCALAR
    )
