"""Conditions: tests that become branches, without a number in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyebpf.builder.entity import NoPythonOperators
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Value

__all__ = ["NEGATED", "All", "Always", "Any", "Compare", "Not", "Test", "negate"]

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


class _Condition(NoPythonOperators):
    """The base of all tests."""

    __slots__ = ()

    def describe(self) -> str:
        return "a condition"


@dataclass(frozen=True, slots=True, eq=False)
class Always(_Condition):
    """Known while compiling."""

    holds: bool


@dataclass(frozen=True, slots=True, eq=False)
class Compare(_Condition):
    """`left relation right` on 64 bits.

    `presence` marks a comparison of an address with 0 that decides whether it is None; `guards` is an address in a
    packet that may be read where `left` is at or below `right`.
    """

    relation: Relation
    left: Value
    right: Value
    presence: bool = False
    guards: Value | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Not(_Condition):
    """The opposite of `condition`."""

    condition: Test


@dataclass(frozen=True, slots=True, eq=False)
class All(_Condition):
    """Every one of `conditions`; their operands are computed already."""

    conditions: tuple[Test, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Any(_Condition):
    """At least one of `conditions`; their operands are computed already."""

    conditions: tuple[Test, ...]


Test: TypeAlias = Always | Compare | Not | All | Any


def negate(test: Test) -> Test:
    """Return the opposite of `test`, in its simplest form."""
    match test:
        case Always(holds):
            return Always(not holds)
        case Not(condition):
            return condition
        case Compare(relation, left, right, presence, guards) if relation in NEGATED:
            return Compare(NEGATED[relation], left, right, presence, guards)
        case _:
            return Not(test)
