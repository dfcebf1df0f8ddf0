"""`@x[key] = tseries(n, interval, count)`: values by intervals of time, of which the last `count` are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.series import EPOCH, FUNCTIONS, META, VALUE, WORDS, SeriesTable
from pyebpf.bpftrace.translate import maps
from pyebpf.bpftrace.translate.expressions import known_number, known_text, number
from pyebpf.bpftrace.translate.values import Integer, Unknown
from pyebpf.bpftrace.value_types import Aggregate
from pyebpf.builder.drop_counters import FULL, count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import temporary, zero
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType as Register
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_NOEXIST
from pyebpf.uapi.helper_ids import KTIME_GET_BOOT_NS, MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.compiler import ir

#: The map of what the TAI clock is ahead of the boot clock, which user space writes when a script starts.
TAI_MAP = ".tai"
_MAX_INTERVALS = 1_000_000


def tai(s: Scope) -> ir.Value:
    """Nanoseconds of the TAI clock, on every kernel."""
    p = s.p
    p.maps[TAI_MAP] = MapSpec(TAI_MAP, MapType.ARRAY, U32, U64, 1)
    ahead = p.b.load(p.b.emit(Op.MAP_VALUE, symbol=TAI_MAP), 0, 8)
    return p.b.binary(Op.ADD, p.b.call(KTIME_GET_BOOT_NS), ahead)


def series(s: Scope, target: ast.Map | ast.MapAccess, node: ast.Call) -> None:
    """Build the assignment."""
    type_, value = _declared(s, node)
    key = maps.key_of(s, target)
    s.script.maps.note_value(maps.map_of(target), type_)
    table = s.script.maps.table(maps.map_of(target))
    now = _now(s, node)
    if not isinstance(table, SeriesTable) or isinstance(key, Unknown) or now is None:
        return
    b = s.p.b
    epoch = b.binary(Op.UDIV, now, b.const(table.step))
    bucket = Int(b.binary(Op.UMOD, epoch, b.const(table.count)), U64)
    _at_entry(
        s, table, (maps.operand_of(s, key, table.key_type), bucket),
        lambda entry: _record(s, table, entry, value, epoch, now),
    )  # fmt: skip


def _declared(s: Scope, node: ast.Call) -> tuple[Aggregate, Integer]:
    """The type of the map, and the value."""
    from pyebpf.bpftrace.translate.functions import arguments

    first, *rest = arguments(s, node, 3, 4)
    value = number(s, first)
    length, count = known_number(s, rest[0]), known_number(s, rest[1])
    if length < 1:
        raise s.error("an interval of tseries() is at least 1ns long", rest[0])
    if not 1 <= count <= _MAX_INTERVALS:
        raise s.error(f"tseries() has 1 to {_MAX_INTERVALS} intervals, not {count}", rest[1])
    function = known_text(s, rest[2]) if len(rest) > 2 else ""
    if function not in FUNCTIONS or (len(rest) > 2 and not function):
        raise s.error(f"tseries() takes one of {', '.join(FUNCTIONS[1:])}, not {function!r}", rest[2])
    natural = value.literal is not None and value.literal >= 0
    return Aggregate("tseries", value.signed and not natural, (length, count, FUNCTIONS.index(function))), value


def _now(s: Scope, node: ast.Call) -> ir.Value | None:
    """The time; that of a map where the setting `dummy_ts_map` names one, by which bpftrace tests series."""
    name = s.script.settings.dummy_ts_map
    if not name:
        return tai(s)
    found = maps.read(s, ast.Map(node.start, node.end, name.removeprefix("@")))
    return None if isinstance(found, Unknown) else found.number(s.p)


def _at_entry(s: Scope, table: SeriesTable, key: object, build: Callable[[ir.Value], None]) -> None:
    """Build what is done at this processor's part of an entry, which is made if there is none."""
    p, b, spec = s.p, s.p.b, table.spec
    assert spec.key is not None
    handle = b.emit(Op.MAP, symbol=p.use_map(spec))
    place = b.variable(Register.POINTER, "bucket")
    with temporary(p, spec.key.size) as slot, temporary(p, 8 * WORDS) as nothing:
        address = b.slot_address(slot)
        p.store_value(address, 0, spec.key, key)
        first = b.call(MAP_LOOKUP_ELEM, handle, address, result=Register.POINTER)
        b.write(place, first)
        with b.if_(Compare(Relation.EQ, first, b.const(0), null_check=True)):
            zeros = b.slot_address(nothing)
            zero(p, zeros, 0, 8 * WORDS)
            b.call(MAP_UPDATE_ELEM, handle, address, zeros, b.const(BPF_NOEXIST))
            b.write(place, b.call(MAP_LOOKUP_ELEM, handle, address, result=Register.POINTER))
    entry = b.read_final(place)
    with b.if_(Compare(Relation.NE, entry, b.const(0), null_check=True)):
        build(entry)
    with b.else_():
        count_drop(p, FULL, table.name)


def _record(s: Scope, table: SeriesTable, entry: ir.Value, value: Integer, epoch: ir.Value, now: ir.Value) -> None:
    """Build the change of a part: what an interval before this one left there is forgotten."""
    b, function = s.p.b, FUNCTIONS[table.function]
    if function:
        with b.if_(Compare(Relation.NE, b.load(entry, EPOCH, 8), epoch)):
            b.store(entry, VALUE, b.const(0), 8)
            b.store(entry, META, b.const(0), 8)
    if function in ("sum", "avg"):
        b.store(entry, VALUE, b.binary(Op.ADD, b.load(entry, VALUE, 8), value.value), 8)
        b.store(entry, META, b.binary(Op.ADD, b.load(entry, META, 8), b.const(1)), 8)
    elif function:
        below, above = (Relation.SLT, Relation.SGT) if table.value_type.signed else (Relation.ULT, Relation.UGT)
        relation = above if function == "max" else below
        with b.if_(Compare(relation, value.value, b.load(entry, VALUE, 8))):
            b.store(entry, VALUE, value.value, 8)
        with b.if_(Compare(Relation.EQ, b.load(entry, META, 8), b.const(0))):
            b.store(entry, VALUE, value.value, 8)
            b.store(entry, META, b.const(1), 8)
    else:
        b.store(entry, VALUE, value.value, 8)
        b.store(entry, META, now, 8)
    b.store(entry, EPOCH, epoch, 8)
