"""Names that stand for either of two records: they hold the address of one, wherever it is.

A record on the stack has one place for each place of the source that makes it. In a loop, the next iteration makes the
next one there: so another name for the record of the iteration before would see it change. That is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.optional import Maybe, bare, with_flag
from pyebpf.builder.values.records import Record, RecordLiteral, is_fresh
from pyebpf.dsl.translate.tuples import TupleValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entity import RunTimeValue
    from pyebpf.dsl.translate.names import NameEntry, Names


class AnywhereRecord(Record):
    """A record by its address, on the stack or in a map."""


def are_joined(values: Sequence[object]) -> bool:
    """Whether the values are records of one type that one name can stand for by turns."""
    records = [value for value in values if isinstance(value, (Record, RecordLiteral))]
    return (
        bool(records)
        and len(records) == len(values)
        and all(value.type == records[0].type for value in records)
        and all(_is_plain(value.lvalue) for value in records if isinstance(value, Record))
    )


def _is_plain(place: Lvalue) -> bool:
    return place.writable and not (place.packet or place.untrusted or place.fixed)


def anywhere(p: ProgramBuilder, value: Record | RecordLiteral) -> AnywhereRecord:
    """The record by its address. It may be in a map, so that it is counted in by atomic operations."""
    fresh = is_fresh(value)
    record = value.local(p) if isinstance(value, RecordLiteral) else value
    if isinstance(record, AnywhereRecord):
        return record
    record.check(p)
    address = record.lvalue.exact(p)
    if record.lvalue.base is not None and address != record.lvalue.base:
        origin = p.b.origin(record.lvalue.base)
        if origin is not None:
            p.b.assume_origin(address, origin)
    found = AnywhereRecord(record.type, Lvalue(base=address, shared=True, space=record.lvalue.space))
    found.fresh = fresh
    return found


def anywhere_or_none(p: ProgramBuilder, value: RunTimeValue, source: str) -> Maybe:
    """A record that may be None by its address, with the flag that tells."""
    found = with_flag(p, value, source)
    assert isinstance(found.inner, Record)
    return Maybe(found.flag, anywhere(p, found.inner), source)


def record_by_turns(n: Names, name: str, entry: NameEntry, value: object) -> RunTimeValue | None:
    """The value of a name that is given records by turns, once it has this one; None for what is not a record."""
    if isinstance(value, Maybe) and isinstance(value.inner, Record):
        return anywhere_or_none(n.p, value, n.shown(name))
    if not isinstance(value, (Record, RecordLiteral)):
        return None
    if isinstance(value, Record) and value.lvalue.may_be_null(n.p):
        return anywhere_or_none(n.p, value, n.shown(name))
    if isinstance(value, RecordLiteral) or value.lvalue.slot is not None or isinstance(value, AnywhereRecord):
        carried = {variable for place in entry.places.values() for variable in place.variables}
        if any(loop.for_each is not None and loop.carried & carried for loop in n.loops):
            n.fail(
                f"{name} would refer to a record of the loop's body, which runs as a function of its own: make the "
                "record before the loop, and assign its fields here"
            )
    if isinstance(value, RecordLiteral) and _in_loop(n) and not value.plain:
        # What its fields are made of may be the record that was made here in the iteration before.
        value = value.local(n.p)
        slot = n.b.slot(-(-value.type.size // 8) * 8, name=value.type.name)
        value.write_to(n.p, n.b.slot_address(slot), 0, value.type)
        value = Record(value.type, Lvalue(slot=slot))
        value.fresh = True
    return anywhere(n.p, value)


def check_alias(n: Names, name: str, value: object) -> None:
    """Refuse another name, in a loop, for a record that may be made anew there while both are used."""
    if isinstance(value, TupleValue):
        value = value.elements
    if isinstance(value, tuple):
        for each in value:
            check_alias(n, name, each)
        return
    found = bare(value) if isinstance(value, Maybe) else value
    if not isinstance(found, Record) or is_fresh(found) or not _in_loop(n):
        return
    by_turns = n.times.is_anywhere(n.key, name) and found.lvalue.slot is not None
    if by_turns or isinstance(found, AnywhereRecord):
        n.fail(
            f"{name} would be another name for a record that the loop may make anew: make a record of its own, "
            f"{found.type.name}(…), of the fields"
        )


def _in_loop(n: Names) -> bool:
    return any(not loop.unrolled for loop in n.loops)
