"""Functions of a unit, and the calls that were inlined into them; DWARF 5, section 3.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.elf.dwarf.constants import Attribute, Tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.elf.dwarf.units import Entry, Unit, Value

#: Entries in which functions are declared or defined.
_SCOPES = frozenset({Tag.NAMESPACE, Tag.MODULE, Tag.STRUCTURE_TYPE, Tag.CLASS_TYPE, Tag.UNION_TYPE})
_MAX_DEPTH, _MAX_CALLS, _MAX_FUNCTIONS = 256, 1 << 16, 1 << 18


class FunctionExtent(NamedTuple):
    """A part of a function's code, and the place of its entry in the unit."""

    low: int
    high: int
    place: int


class InlinedCall(NamedTuple):
    """A part of the code that an inlined call became, which entry it is an instance of, and where it was called."""

    low: int
    high: int
    depth: int
    origin: Value | None
    file: int
    line: int


def functions(unit: Unit) -> Iterator[FunctionExtent]:
    """The functions of a unit that have code."""
    number = 0
    for entry, _ in below(unit, unit.root, _SCOPES):
        if entry.abbreviation.tag == Tag.SUBPROGRAM:
            number += 1
            unit.budget.check(number, _MAX_FUNCTIONS, "functions of a unit")
            for low, high in unit.ranges(entry.values):
                yield FunctionExtent(low, high, entry.place)


def inlined_calls(unit: Unit, place: int) -> list[InlinedCall]:
    """The inlined calls of a function, by the place of its entry: outer ones before those in them."""
    function = unit.entry(place)
    found: list[InlinedCall] = []
    if function is None:
        return found
    for entry, depth in below(unit, function, frozenset({Tag.LEXICAL_BLOCK, Tag.INLINED_SUBROUTINE})):
        if entry.abbreviation.tag != Tag.INLINED_SUBROUTINE:
            continue
        values = entry.values
        file, line = (values.get(each, (0, 0))[1] for each in (Attribute.CALL_FILE, Attribute.CALL_LINE))
        for low, high in unit.ranges(values):
            found.append(InlinedCall(low, high, depth, values.get(Attribute.ABSTRACT_ORIGIN), file, line))
        unit.budget.check(len(found), _MAX_CALLS, "inlined calls of a function")
    return found


def below(unit: Unit, parent: Entry, scopes: frozenset[Tag]) -> Iterator[tuple[Entry, int]]:
    """Entries below another, with their depths; of those below them only what lies in scopes."""
    if not parent.abbreviation.has_children:
        return
    place, depth, hidden = parent.end, 1, 0
    number = 0
    while True:
        number += 1
        unit.budget.clock(number)
        entry = unit.entry(place)
        if entry is None:
            place += 1
            if hidden:
                hidden -= 1
            else:
                depth -= 1
                if not depth:
                    return
            continue
        if not hidden:
            yield entry, depth
        place = entry.end
        if not entry.abbreviation.has_children:
            continue
        if not hidden and entry.abbreviation.tag in scopes and depth < _MAX_DEPTH:
            depth += 1
        elif (sibling := entry.values.get(Attribute.SIBLING)) is not None and unit.local(sibling) > entry.end:
            place = unit.local(sibling)
        else:
            hidden += 1
