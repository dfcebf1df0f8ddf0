"""One value of the several that paths bring: conditional expressions, `and`, `or`, look-ups in constant tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values import operations
from pyebpf.builder.values.entity import RunTimeValue
from pyebpf.builder.values.integers import Character, Int
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.optional import Maybe, bare, nothing_of, with_flag
from pyebpf.builder.values.records import Record, RecordLiteral, is_fresh
from pyebpf.builder.values.strings import String, StringSource
from pyebpf.dsl.translate.tuples import TupleValue, described
from pyebpf.types import U64, CharArray

if TYPE_CHECKING:
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.dsl.translate.frame import Frame

__all__ = ["join_values", "leave"]


def leave(f: Frame) -> Join:
    """Leave the current point for one that is taken up later."""
    way = Join()
    f.b.jump(way)
    return way


def join_values(f: Frame, ways: list[tuple[Any, Join]], end: Join, what: str) -> Any:
    """One value of the several that paths bring to `end`; the only one as it is."""
    if not ways:
        return None
    if len(ways) == 1:
        f.b.start(ways[0][1])
        return ways[0][0]
    ways = [(TupleValue(value, type(value)) if isinstance(value, tuple) else value, way) for value, way in ways]
    values = [value for value, _ in ways]
    if all(isinstance(value, (str, String, StringSource)) for value in values):
        return _text(f, ways, end, what)
    ways = _records(f, ways)
    values = [value for value, _ in ways]
    if any(value is None or isinstance(value, Maybe) for value in values):
        if all(value is None for value in values):
            for _, way in ways:
                f.b.start(way)
                f.b.jump(end)
            f.b.start(end)
            return None
        ways = _optional(f, ways, what)
        values = [value for value, _ in ways]
    for value in values:
        if not isinstance(value, (RunTimeValue, int)):
            f.fail(
                f"{what} gives {described(value)} on one path, which is known only while compiling: write `if` "
                "with a statement for each"
            )
    return _run_time(f, ways, end, what)


def _text(f: Frame, ways: list[tuple[Any, Join]], end: Join, what: str) -> String:
    """Texts have memory of their own, with room for the longest, which each path writes."""
    from pyebpf.dsl.translate.texts import text_room

    rooms = [text_room(f.p, value) for value, _ in ways]
    if not all(rooms):
        f.fail(f"{what} gives a text that does not tell its size, or may be None: give it one, size=64 for example")
    type_ = CharArray(max(rooms))
    slot = f.b.slot(-(-type_.size // 8) * 8, name="text")
    for value, way in ways:
        f.b.start(way)
        f.p.store_value(f.b.slot_address(slot), 0, type_, value)
        f.b.jump(end)
    f.b.start(end)
    return String(type_, Lvalue(slot=slot, owner="a local", writable=False))


def _records(f: Frame, ways: list[tuple[Any, Join]]) -> list[tuple[Any, Join]]:
    """Records of one type by their addresses, where there is more than one; all else as it is."""
    if sum(isinstance(value, Record | RecordLiteral) for value, _ in ways) < 2:
        return ways
    from pyebpf.dsl.translate.anywhere import anywhere, anywhere_or_none, are_joined

    given = [bare(value) if isinstance(value, RunTimeValue) else value for value, _ in ways if value is not None]
    if not are_joined(given) or len({value.static_shape for value in given}) == 1:
        return ways
    fresh = all(map(is_fresh, given))
    done: list[tuple[Any, Join]] = []
    for value, way in ways:
        if value is None:
            done.append((value, way))
            continue
        f.b.start(way)
        found: Any
        if isinstance(value, Maybe) or (isinstance(value, Record) and value.lvalue.may_be_null(f.p)):
            found = anywhere_or_none(f.p, value, value.describe())
        else:
            found = anywhere(f.p, value)
            found.fresh = fresh
        done.append((found, leave(f)))
    return done


def _optional(f: Frame, ways: list[tuple[Any, Join]], what: str) -> list[tuple[Any, Join]]:
    """Each path's value with a flag that tells whether it is None."""
    made: dict[int, Maybe] = {}
    after: dict[int, Join] = {}
    ints = [value for value, _ in ways if isinstance(value, (Int, int)) and value is not None]
    unsigned = any(isinstance(value, Int) and value.type == U64 for value in ints)
    for number, (value, way) in enumerate(ways):
        if value is None:
            continue
        f.b.start(way)
        one = value.local(f.p) if isinstance(value, RunTimeValue) else operations.to_int(f.p, value)
        if unsigned and isinstance(one, Int) and one.type != U64 and f.b.bounds(one.value)[0] >= 0:
            one = one.convert(f.p, U64)
        made[number] = with_flag(f.p, one, what)
        after[number] = leave(f)
    like = next(iter(made.values())).inner
    done: list[tuple[Any, Join]] = []
    for number, (_, way) in enumerate(ways):
        if number in made:
            done.append((made[number], after[number]))
            continue
        f.b.start(way)
        nothing = nothing_of(f.p, like, what)
        done.append((nothing, leave(f)))
    return done


def _run_time(f: Frame, ways: list[tuple[Any, Join]], end: Join, what: str) -> Any:
    values = [value for value, _ in ways]
    runtime = [value for value in values if isinstance(value, RunTimeValue)]
    integers = all(isinstance(value, (Int, int)) for value in values)
    unsigned = integers and any(isinstance(value, Int) and value.type == U64 for value in runtime)
    if unsigned:
        for value in values:
            if isinstance(value, int) and value < 0:
                f.fail(f"{what} gives a u64 on one path and {value} on another: write u64(…) or s64(…)")
            if isinstance(value, Int) and value.type != U64:
                f.fail(f"{what} gives a u64 on one path and an s64 on another: write u64(…) or s64(…)")
    if integers and not unsigned and any(isinstance(value, int) and value >= 1 << 63 for value in values):
        f.fail(f"{what} gives a number from 2**63 on, a u64, and an s64: write u64(…) or s64(…)")
    characters = all(isinstance(value, Character) for value in values)
    variables: tuple[Variable, ...] | None = None
    prototype: RunTimeValue | None = None
    for value, way in ways:
        f.b.start(way)
        one: RunTimeValue
        if isinstance(value, Character) and not characters:
            # Beside a number a character is one, too.
            one = Int(value.value, value.type, value.loaded)
        elif isinstance(value, RunTimeValue):
            one = value.local(f.p) if not isinstance(value, Maybe) else value
        else:
            one = operations.to_int(f.p, value)
            if unsigned:
                one = one.convert(f.p, U64)
        if prototype is None or variables is None:
            prototype = one
            variables = tuple(f.b.variable(part.kind, "choice") for part in one.ssa_values)
        elif one.static_shape != prototype.static_shape:
            f.fail(
                f"{what} gives {prototype.describe()} on one path and {one.describe()} on another: write `if` "
                "with a statement for each"
            )
        for variable, part in zip(variables, one.ssa_values, strict=True):
            f.b.write(variable, part)
        f.b.jump(end)
    f.b.start(end)
    assert prototype is not None
    assert variables is not None
    parts = [f.b.read(variable) for variable in variables]
    found = prototype.with_ssa_values(tuple(part for part in parts if part is not None))
    if isinstance(found, Record) and isinstance(prototype, Record):
        found.fresh = prototype.fresh
    return found.inner if isinstance(found, Maybe) and f.b.is_non_null(found.flag) else found
