"""Maps of a script in its probes: entries read, assigned, counted, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.aggregates import Extreme
from pyebpf.bpftrace.series import SeriesTable
from pyebpf.bpftrace.tables import NO_KEY, Gathered, Table
from pyebpf.bpftrace.translate import arithmetic, signs
from pyebpf.bpftrace.translate.buffers import fitted
from pyebpf.bpftrace.translate.values import (
    Condition,
    Integer,
    Unknown,
    is_unknown,
    of_number_type,
    read_stored,
)
from pyebpf.bpftrace.value_types import Aggregate, Number
from pyebpf.builder.available import has_helper, need_helper
from pyebpf.builder.loops import range_loop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, copy, temporary, zero
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType as Register
from pyebpf.dataclass import replace
from pyebpf.maps.for_each import count_entries
from pyebpf.types import S64, U64
from pyebpf.uapi.helper_ids import MAP_DELETE_ELEM, MAP_LOOKUP_PERCPU_ELEM

if TYPE_CHECKING:
    from typing import TypeAlias

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.compiler import ir

    Target: TypeAlias = ast.Map | ast.MapAccess

_NO_ENTRY = "Can't lookup map element because it does not exist.\nAdditional Info - helper: map_lookup_elem, retcode: 0"
#: Aggregations that are numbers in a probe.
READABLE = ("count", "sum", "min", "max", "avg")


def map_of(node: Target) -> ast.Map:
    """The map that an expression is of."""
    return node if isinstance(node, ast.Map) else node.map


def key_of(s: Scope, node: Target) -> Value | None:
    """The key's value, whose type is noted; None of a map without keys."""
    from pyebpf.bpftrace.translate.expressions import evaluate
    from pyebpf.bpftrace.translate.members import kept

    if isinstance(node, ast.Map):
        s.script.maps.note_key(node, None)
        return None
    key = kept(s, evaluate(s, node.key), node.key)
    if not is_unknown(key):
        s.script.maps.note_key(node.map, key.type)
    return key


def _is_unknown_key(key: Value | None) -> bool:
    return key is not None and is_unknown(key)


def operand_of(s: Scope, key: Value | None, type_: ValueType | None) -> Any:
    """The builder's operand for a key of a map with keys of a type."""
    return NO_KEY if key is None else fitted(s.p, key, type_).operand(s.p)


def read(s: Scope, node: Target) -> Value:
    """`@map[key]`; what is missing is 0, or an empty string."""
    from pyebpf.bpftrace.translate.checks import warn

    key = key_of(s, node)
    s.script.maps.note_read(map_of(node))
    table = s.script.maps.table(map_of(node))
    if table is None or _is_unknown_key(key):
        return Unknown(s.p)
    if isinstance(table, SeriesTable):
        raise s.error(f"{table.name}, which tseries() fills, is no number: print() shows it", node)
    if isinstance(table, Gathered):
        return read_gathered(s, table, key, node)
    entry = table._find(s.p, operand_of(s, key, table.key_type))
    if s.script.checks_lookups and key is not None:
        with s.p.b.if_(Compare(Relation.EQ, entry, s.p.b.const(0), null_check=True)):
            warn(s, node, _NO_ENTRY)
    return entry_value(s, table, entry)


def entry_value(s: Scope, table: Table, entry: ir.Value) -> Value:
    """The value at an entry's address, nothing if that is NULL: a copy, since others may change the entry."""
    p, type_ = s.p, table.value_type
    present = Compare(Relation.NE, entry, p.b.const(0), null_check=True)
    if isinstance(type_, Number):
        answer = p.b.variable(hint="value")
        with p.b.if_(present):
            p.b.write(answer, p.b.load(entry, 0, 8))
        with p.b.else_():
            p.b.write(answer, p.b.const(0))
        return of_number_type(type_, p.b.read_final(answer))
    size = type_.storage.size
    slot = p.b.slot(-(-size // 8) * 8, name="value")
    address = p.b.slot_address(slot)
    with p.b.if_(present):
        copy(p, address, 0, entry, 0, size)
    with p.b.else_():
        zero(p, address, 0, size)
    return read_stored(p, type_, Lvalue(slot=slot, owner=table.name, writable=False))


def is_readable(p: ProgramBuilder, table: Gathered) -> bool:
    """Whether a probe can read an entry: a number, where programs see the other processors' parts (Linux 5.19)."""
    return table.value_type.kind in READABLE and has_helper(p, "map_lookup_percpu_elem")


def read_gathered(s: Scope, table: Gathered, key: Value | None, node: ast.Node) -> Value:
    """The value of all processors' parts together: a count, a sum, an extreme, an average."""
    p, type_ = s.p, table.value_type
    kind = type_.kind
    if kind not in READABLE:
        raise s.error(f"{table.name}, which {kind}() fills, is no number: print() shows it", node)
    need_helper(p, "map_lookup_percpu_elem", f"reading {table.name} in a probe", "count by @x++, or print() the map")
    cells = _combined(s, table, key)
    if kind in ("count", "sum"):
        return Integer(cells[0], signed=type_.signed)
    if kind == "avg":
        count, total = cells
        return arithmetic.binary(p, "/", Integer(total, signed=type_.signed), Integer(count, signed=False))
    extreme = table.type
    assert isinstance(extreme, Extreme)
    return Integer(extreme.decoded(p, cells), signed=type_.signed)


def _combined(s: Scope, table: Gathered, key: Value | None) -> list[ir.Value]:
    """The cells of an entry, those of all processors added, or the greatest of them."""
    p, b, spec = s.p, s.p.b, table.spec
    assert spec.key is not None
    greatest = table.value_type.kind in ("min", "max")
    totals = [b.variable(hint="total") for _ in table.type.codes]
    for each in totals:
        b.write(each, b.const(0))
    handle = b.emit(Op.MAP, symbol=p.use_map(spec))
    with temporary(p, spec.key.size) as slot:
        place = b.slot_address(slot)
        p.store_value(place, 0, spec.key, operand_of(s, key, table.key_type))
        with range_loop(p, 0, p.target.possible_cpus, 1, totals) as (_, cpu):
            entry = b.call(MAP_LOOKUP_PERCPU_ELEM, handle, place, cpu.value, result=Register.POINTER)
            with b.if_(Compare(Relation.NE, entry, b.const(0), null_check=True)):
                for position, each in enumerate(totals):
                    so_far, part = b.read(each), b.load(entry, 8 * position, 8)
                    assert so_far is not None
                    if not greatest:
                        b.write(each, b.binary(Op.ADD, so_far, part))
                        continue
                    with b.if_(Compare(Relation.UGT, part, so_far)):
                        b.write(each, part)
    return [b.read_final(each) for each in totals]


def length(s: Scope, node: ast.Map) -> Value:
    """`len(@map)`: the number of its entries, which the kernel counts by going over them."""
    table = s.script.maps.table(node)
    if table is None:
        return Unknown(s.p)
    if table.key_type is None:
        raise s.error(f"{table.name} has no keys: len() counts the entries of a map that has", node)
    pointer = table.pointer() if isinstance(table, Gathered) else table
    return Integer(count_entries(s.p, pointer, f"len({table.name})"), signed=True)


def has_entry(s: Scope, node: Target) -> Test | None:
    """Whether there is an entry; None if the map is not known yet."""
    key = key_of(s, node)
    table = s.script.maps.table(map_of(node))
    if table is None or _is_unknown_key(key):
        return None
    find = table.find if isinstance(table, Gathered) else table._find
    entry = find(s.p, operand_of(s, key, table.key_type))
    return Compare(Relation.NE, entry, s.p.b.const(0), null_check=True)


def assign(s: Scope, node: Target, value: Value, where: ast.Node) -> None:
    """`@map[key] = value`."""
    from pyebpf.bpftrace.translate.members import kept

    key = key_of(s, node)
    value = kept(s, value, where)
    if is_unknown(value):
        return
    s.script.maps.note_value(map_of(node), value.type)
    table = s.script.maps.table(map_of(node))
    if isinstance(table, Table) and not _is_unknown_key(key):
        signs.check_kept(s, value, table.value_type, table.name, where)
        table.set_item(s.p, operand_of(s, key, table.key_type), fitted(s.p, value, table.value_type).operand(s.p))


def gather(s: Scope, node: Target, type_: Aggregate, value: Integer) -> None:
    """`@map[key] = count()` and its like."""
    key = key_of(s, node)
    s.script.maps.note_value(map_of(node), type_)
    table = s.script.maps.table(map_of(node))
    if isinstance(table, Gathered) and not _is_unknown_key(key):
        number = Int(value.value, S64 if value.signed else U64)
        table.add_to(s.p, operand_of(s, key, table.key_type), number)


def augment(s: Scope, node: Target, operator: str, value: Integer, *, wanted: str = "") -> Value | None:
    """`@map[key] += value` in one step where the kernel can; the entry's value before or after, if it is `wanted`."""
    from pyebpf.bpftrace.translate.expressions import combined

    maps = s.script.maps
    key = key_of(s, node)
    held = maps.value_type(map_of(node))
    if held is None or isinstance(held, Number):
        flexible = value.type.flexible and (operator != "-" or held is None)  # of which pointers are moved, too
        maps.note_value(map_of(node), Number(operator == "-" or value.signed or value.type.flexible, flexible))
    table = maps.table(map_of(node))
    if table is None or _is_unknown_key(key):
        return Unknown(s.p)
    if isinstance(table, Gathered | SeriesTable):
        raise s.error(
            f"{table.name} is filled by {table.value_type.kind}() elsewhere: write that here, too, or count by ++", node
        )
    at = operand_of(s, key, table.key_type)
    if isinstance(table.value_type, Number) and operator in ("+", "-", "|", "&", "^") and not wanted:
        if operator == "-":
            table.augment_item(s.p, at, "+", Int(s.p.b.emit(Op.NEG, value.value), S64))
        else:
            table.augment_item(s.p, at, operator, Int(value.value, S64 if table.value_type.signed else U64))
        return None
    before = entry_value(s, table, table._find(s.p, at))
    after = combined(s, operator, before, value, node)
    if not isinstance(after, Unknown):
        is_undecided = isinstance(table.value_type, Number) and table.value_type.flexible and value.type.flexible
        # Where only literals were assigned so far, the sign is still open.
        noted_now = (
            replace(after.type, flexible=True) if is_undecided and isinstance(after.type, Number) else after.type
        )
        maps.note_value(map_of(node), noted_now)
        table = maps.table(map_of(node))
        if isinstance(table, Table):
            table.set_item(s.p, at, after.operand(s.p))
    return before if wanted == "before" else after


def delete(s: Scope, node: ast.Map, key: Value | None) -> Value:
    """`delete(@map, key)`: whether it was there."""
    maps = s.script.maps
    if not _is_unknown_key(key):
        maps.note_key(node, None if key is None else key.type)
    maps.note_removal(node)
    table = maps.table(node)
    if table is None or _is_unknown_key(key):
        return Unknown(s.p)
    p = s.p
    spec = table.spec
    assert spec.key is not None
    handle = p.b.emit(Op.MAP, symbol=p.use_map(spec))
    with temporary(p, spec.key.size) as slot:
        place = p.b.slot_address(slot)
        p.store_value(place, 0, spec.key, operand_of(s, key, table.key_type))
        failed = p.b.emit(Op.SEXT, p.b.call(MAP_DELETE_ELEM, handle, place), size=4)
    p.b.invalidate_origin(spec.name, f"delete() on {spec.name}")
    return Condition(Compare(Relation.EQ, failed, p.b.const(0)))
