"""`for ($kv : @map) { … }`: the kernel calls the body, a function of its own, with each entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.tables import Gathered
from pyebpf.bpftrace.translate.storage import from_number
from pyebpf.bpftrace.translate.values import Group, read_stored
from pyebpf.builder.values.entries import MapEntries
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.maps.for_each import for_each_loop

if TYPE_CHECKING:
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType


def for_map(s: Scope, node: ast.For, over: ast.Map) -> None:
    """A loop over a map: the variable is (key, value), as they are when the entry is visited."""
    from pyebpf.bpftrace.translate.statements import run_block

    table = s.script.maps.table(over)
    if table is None:
        return
    if isinstance(table, Gathered):
        raise s.error(
            f"a loop over {table.name}, which {table.value_type.kind}() fills, is not supported yet: print() shows it",
            over,
        )
    if table.key_type is None:
        raise s.error(f"{table.name} has no keys to go over", over)
    carried = s.storage.numbers()
    outer, name = s.bound.get(node.variable.name), node.variable.name
    with for_each_loop(s.p, MapEntries(table, "items"), carried, (), lambda _: (), changes=True) as (loop, element):
        assert isinstance(element, tuple)
        s.map_loops.append(loop)
        s.loops.append(loop.loop)
        parts = zip((table.key_type, table.value_type), element, strict=True)
        s.bound[name] = Group([_now(s, type_, part) for type_, part in parts])
        run_block(s, node.body)
        s.loops.pop()
        s.map_loops.pop()
    if outer is None:
        del s.bound[name]
    else:
        s.bound[name] = outer
    if loop.returns:
        with s.p.b.if_(loop.has_returned()):
            loop.restore()
            s.leave()


def _now(s: Scope, type_: ValueType, part: object) -> Value:
    """A part of an entry as it is now: others may change it."""
    p = s.p
    if isinstance(part, Int):
        return from_number(p, type_, part.value)
    slot = p.b.slot(-(-type_.storage.size // 8) * 8, name="part")
    p.store_value(p.b.slot_address(slot), 0, type_.storage, part)
    return read_stored(p, type_, Lvalue(slot=slot, owner="an entry", writable=False))
