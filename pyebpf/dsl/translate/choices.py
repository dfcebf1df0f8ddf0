"""One value of the several that paths bring: conditional expressions, `and`, `or`, look-ups in constant tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values import operations
from pyebpf.builder.values.arrays import Bytes, KeptBytes
from pyebpf.builder.values.entity import Entity, RunTimeValue
from pyebpf.builder.values.integers import Character, Int
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.optional import Maybe, bare, nothing_of, with_flag
from pyebpf.builder.values.own_methods import check_own
from pyebpf.builder.values.records import Record, RecordLiteral, is_fresh
from pyebpf.builder.values.strings import String, StringSource
from pyebpf.dsl.translate.tuples import TupleValue, described
from pyebpf.types import U64, CharArray

if TYPE_CHECKING:
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.dsl.translate.frame import Frame
    from pyebpf.types import Type


def leave(f: Frame) -> Join:
    """End the current path at a join that is continued later."""
    join = Join()
    f.b.jump(join)
    return join


def join_values(f: Frame, paths: list[tuple[object, Join]], end: Join, what: str) -> object:
    """One value of the several that paths bring to `end`; the only one as it is."""
    if not paths:
        return None
    if len(paths) == 1:
        f.b.start(paths[0][1])
        return paths[0][0]
    check_own(f.p, (value for value, _ in paths))
    paths = [(TupleValue(value, type(value)) if isinstance(value, tuple) else value, path) for value, path in paths]
    values = [value for value, _ in paths]
    if all(isinstance(value, (str, String, StringSource)) for value in values):
        return _text(f, paths, end, what)
    kept = [value for value in values if isinstance(value, Bytes)]
    if len(kept) == len(values) and all(value.type == kept[0].type for value in kept):
        return KeptBytes(kept[0].type, _copies(f, paths, end, kept[0].type))
    paths = _records(f, paths)
    values = [value for value, _ in paths]
    if any(value is None or isinstance(value, Maybe) for value in values):
        if all(value is None for value in values):
            for _, path in paths:
                f.b.start(path)
                f.b.jump(end)
            f.b.start(end)
            return None
        paths = _optional(f, paths, what)
        values = [value for value, _ in paths]
    for value in values:
        if not isinstance(value, (RunTimeValue, int)):
            _refuse_choice(f, value, values, what)
    return _run_time(f, paths, end, what)


def _refuse_choice(f: Frame, value: object, values: list[object], what: str) -> NoReturn:
    """Refuse a value that no run-time value can be, or that is none of the kind that another path gives."""
    other = next((each for each in values if type(each) is not type(value)), None)
    each_its_own = "write `if` with a statement for each"
    if isinstance(value, str) and other is not None:
        f.fail(
            f"{what} gives a string, {described(value)}, on one path and {described(other)} on another: {each_its_own}"
        )
    if isinstance(value, bytes):
        remedy = f"write str for text, {value.decode('ascii', 'replace')!r}, or `if` with a statement for each"
    else:
        remedy = (value.REMEDIES.get("fit") if isinstance(value, Entity) else None) or each_its_own
    can = "at run time only numbers, strings, records and tuples can be chosen"
    f.fail(f"{what} gives {described(value)} on one path, and {can}: {remedy}")


def _text(f: Frame, paths: list[tuple[object, Join]], end: Join, what: str) -> String:
    """Return a string that each path copies into memory of its own, with room for the longest."""
    from pyebpf.dsl.translate.string_buffers import string_room

    rooms = [string_room(f.p, value) for value, _ in paths]
    if not all(rooms):
        f.fail(f"{what} gives a string whose size is not known, or that may be None: give a size, for example size=64")
    type_ = CharArray(max(rooms))
    return String(type_, _copies(f, paths, end, type_))


def _copies(f: Frame, paths: list[tuple[object, Join]], end: Join, type_: Type) -> Lvalue:
    """Memory that each path copies its value to."""
    slot = f.b.slot(-(-type_.size // 8) * 8, name="copy")
    for value, path in paths:
        f.b.start(path)
        f.p.store_value(f.b.slot_address(slot), 0, type_, value)
        f.b.jump(end)
    f.b.start(end)
    return Lvalue(slot=slot, owner="a local", writable=False)


def _records(f: Frame, paths: list[tuple[object, Join]]) -> list[tuple[object, Join]]:
    """Records of one type by their addresses, where there is more than one; all else as it is."""
    if sum(isinstance(value, (Record, RecordLiteral)) for value, _ in paths) < 2:
        return paths
    from pyebpf.dsl.translate.anywhere import anywhere, anywhere_or_none, are_joined

    given = [bare(value) if isinstance(value, RunTimeValue) else value for value, _ in paths if value is not None]
    if not are_joined(given) or len({value.static_shape for value in given if isinstance(value, RunTimeValue)}) == 1:
        return paths
    fresh = all(map(is_fresh, given))
    done: list[tuple[object, Join]] = []
    for value, path in paths:
        if value is None:
            done.append((value, path))
            continue
        f.b.start(path)
        found: object
        if isinstance(value, Maybe) or (isinstance(value, Record) and value.lvalue.may_be_null(f.p)):
            found = anywhere_or_none(f.p, value, value.describe())
        else:
            assert isinstance(value, (Record, RecordLiteral))
            found = anywhere(f.p, value)
            found.fresh = fresh
        done.append((found, leave(f)))
    return done


def _optional(f: Frame, paths: list[tuple[object, Join]], what: str) -> list[tuple[object, Join]]:
    """Each path's value with a flag that tells whether it is None."""
    made: dict[int, Maybe] = {}
    after: dict[int, Join] = {}
    ints = [value for value, _ in paths if isinstance(value, (Int, int)) and value is not None]
    unsigned = any(isinstance(value, Int) and value.type == U64 for value in ints)
    for number, (value, path) in enumerate(paths):
        if value is None:
            continue
        f.b.start(path)
        one = value.local(f.p) if isinstance(value, RunTimeValue) else operations.to_int(f.p, value)
        if unsigned and isinstance(one, Int) and one.type != U64 and f.b.bounds(one.value)[0] >= 0:
            one = Int(one.value, U64)
        made[number] = with_flag(f.p, one, what)
        after[number] = leave(f)
    like = next(iter(made.values())).inner
    done: list[tuple[object, Join]] = []
    for number, (_, path) in enumerate(paths):
        if number in made:
            done.append((made[number], after[number]))
            continue
        f.b.start(path)
        nothing = nothing_of(f.p, like, what)
        done.append((nothing, leave(f)))
    return done


def _run_time(f: Frame, paths: list[tuple[object, Join]], end: Join, what: str) -> RunTimeValue:
    values = [value for value, _ in paths]
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
    for value, path in paths:
        f.b.start(path)
        one: RunTimeValue
        if isinstance(value, Character) and not characters:
            # Beside a number a character is one, too.
            one = Int(value.value, value.type, value.loaded)
        elif isinstance(value, RunTimeValue):
            one = value.local(f.p) if not isinstance(value, Maybe) else value
        else:
            one = operations.to_int(f.p, value)
            if unsigned:
                one = Int(one.value, U64)
        if prototype is None or variables is None:
            prototype = one
            variables = tuple(f.b.variable(part.type, "choice") for part in one.ssa_values)
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
