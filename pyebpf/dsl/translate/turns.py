"""Names that are given different things by turns: strings, either of two records, None or a value.

Where a name can't stand for what paths bring, `mark_joined` notes what it is given (`BindingTimes`), and the program is
translated anew: strings then have memory of the name's own, of a record the name holds the address, and a flag tells
None from a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import negate
from pyebpf.builder.values.entity import RunTimeValue
from pyebpf.builder.values.integers import Character, Int
from pyebpf.builder.values.optional import Maybe, Nothing, bare, nothing_of, with_flag
from pyebpf.builder.values.records import Record, RecordLiteral
from pyebpf.builder.values.strings import String
from pyebpf.dsl.translate.tuples import TupleValue
from pyebpf.types import U64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.dsl.translate.names import NameEntry, Names
    from pyebpf.dsl.translate.string_buffers import StringBuffers


def none_value(n: Names, name: str, entry: NameEntry) -> RunTimeValue:
    """None, as the name holds it."""
    if n.times.is_optional_text(n.key, name):
        buffers = _buffers(entry, n.times.string_length(n.key, name))
        return Maybe(n.b.const(0), buffers.nothing(n.p, _assigned(n, entry)), n.shown(name))
    like = n.times.optional(n.key, name)
    return Nothing() if like is None else nothing_of(n.p, like, n.shown(name))


def optional_value(n: Names, name: str, value: RunTimeValue) -> Maybe:
    """A value of a name that is None on other paths."""
    like = n.times.optional(n.key, name)
    found = with_flag(n.p, value, n.shown(name))
    number = found.inner
    if isinstance(like, Int) and isinstance(number, Int) and number.type != like.type:
        n.times.mark_optional(n.key, name, number if number.type == U64 else like)
    return found


def own_memory(n: Names, name: str, entry: NameEntry, value: object) -> RunTimeValue | None:
    """The value of a name that is given strings, or records, by turns, once it has this one; None for all others."""
    if n.times.string_length(n.key, name):
        return _text(n, name, entry, value)
    if n.loops or n.times.is_anywhere(n.key, name):
        from pyebpf.dsl.translate.anywhere import check_alias, record_by_turns

        check_alias(n, name, value)
        if n.times.is_anywhere(n.key, name):
            return record_by_turns(n, name, entry, value)
    return None


def is_own_text(entry: NameEntry, value: object) -> bool:
    """Whether a value stands in the memory that a name has for strings."""
    return entry.buffers is not None and entry.buffers.is_here(value)


def mark_joined(n: Names, name: str, entry: NameEntry, *more: object) -> None:
    """Note what a name is given that can't stand for all of it."""
    given = [*(place.prototype for place in entry.places.values()), *more]
    if any(isinstance(each, Character) for each in given) and all(isinstance(each, Int) for each in given):
        n.times.mark_number(n.key, name)
        return
    if _mark_elements(n, name, given):
        return
    values = [bare(each) if isinstance(each, RunTimeValue) else each for each in given if not isinstance(each, Nothing)]
    optional = len(values) < len(given) or any(_may_be_none(n, each) for each in given)
    shapes = {value.static_shape: value for value in values if isinstance(value, RunTimeValue)}
    if optional and len(shapes) == 1 and all(map(_is_kept, values)):
        assert isinstance(values[0], RunTimeValue)
        if n.times.optional(n.key, name) is None:
            n.times.mark_optional(n.key, name, values[0])
        return
    from pyebpf.dsl.translate.string_buffers import string_room

    rooms = [string_room(n.p, value) for value in values]
    if any(rooms):
        n.times.mark_string(n.key, name, max(rooms))
        if optional and all(rooms):
            n.times.mark_optional_text(n.key, name)
    elif any(isinstance(value, (Record, RecordLiteral)) for value in values):
        from pyebpf.dsl.translate.anywhere import are_joined

        if are_joined(values):
            n.times.mark_anywhere(n.key, name)


def elements_joined(n: Names, name: str, value: RunTimeValue) -> RunTimeValue:
    """A tuple whose constants are u64 where another path gives such."""
    if not isinstance(value, TupleValue):
        return value
    elements = tuple(
        Int(each.value, U64, literal=each.literal)
        if isinstance(each, Int) and each.literal is not None and n.times.is_unsigned(n.key, _element(name, number))
        else each
        for number, each in enumerate(value.elements)
    )
    return TupleValue(elements, value.kind)


def _element(name: str, number: int) -> str:
    return f"{name}[{number}]"


def _mark_elements(n: Names, name: str, given: Sequence[object]) -> bool:
    """Note where a name's tuples have a constant on one path and a u64 on another; fail where they can't be one."""
    values = [bare(each) if isinstance(each, RunTimeValue) else each for each in given if not isinstance(each, Nothing)]
    tuples = [each for each in values if isinstance(each, TupleValue)]
    if not tuples or len(tuples) < len(values):
        return False
    if len({len(each.elements) for each in tuples}) > 1:
        return False
    found = False
    for number, elements in enumerate(zip(*(each.elements for each in tuples), strict=True)):
        if not all(isinstance(each, Int) for each in elements) or len({each.type for each in elements}) == 1:
            continue
        odd = [each for each in elements if each.type != U64 and (each.literal is None or each.literal < 0)]
        if odd:
            n.fail(
                f"{_element(name, number)} is a u64 on one path and an s64 on another: convert one of them, u64(…) or "
                "s64(…)"
            )
        n.times.mark_unsigned(n.key, _element(name, number))
        found = True
    return found


def _may_be_none(n: Names, value: object) -> bool:
    if isinstance(value, (String, Record)):
        return value.lvalue.may_be_null(n.p)
    return isinstance(value, Maybe)


def _is_kept(value: object) -> bool:
    """Whether a value is the same in each pass: memory on the stack is not."""
    if not isinstance(value, RunTimeValue):
        return False
    return bool(value.ssa_values) and getattr(getattr(value, "lvalue", None), "slot", None) is None


def _text(n: Names, name: str, entry: NameEntry, value: object) -> RunTimeValue | None:
    from pyebpf.dsl.translate.string_buffers import string_room

    optional = n.times.is_optional_text(n.key, name)
    if optional and isinstance(value, RunTimeValue) and _may_be_none(n, value):
        value = with_flag(n.p, value, n.shown(name))
    length = n.times.string_length(n.key, name)
    room = string_room(n.p, value.inner if isinstance(value, Maybe) else value, length)
    if not room:
        return None
    n.times.mark_string(n.key, name, room)
    buffers = _buffers(entry, max(length, room))
    assigned = _assigned(n, entry)
    if not isinstance(value, Maybe):
        kept = buffers.keep(n.p, assigned, value)
        return with_flag(n.p, kept, n.shown(name)) if optional else kept
    if not optional:
        return None
    there = buffers.nothing(n.p, assigned)
    with n.b.if_(negate(value.is_none(n.p))):
        buffers.keep(n.p, [there], value.inner)
    return Maybe(value.flag, there, n.shown(name))


def _buffers(entry: NameEntry, length: int) -> StringBuffers:
    from pyebpf.dsl.translate.string_buffers import StringBuffers

    if entry.buffers is None:
        entry.buffers = StringBuffers(length)
    return entry.buffers


def _assigned(n: Names, entry: NameEntry) -> list[RunTimeValue]:
    """The values that the name may stand for here."""
    place = entry.assigned(n.b.environment.values)
    return [] if place is None else [bare(place.prototype)]
