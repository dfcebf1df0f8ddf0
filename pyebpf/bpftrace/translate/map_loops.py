"""`for ($kv : @map) { … }`: the kernel calls the body, a function of its own, with each entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.series import SeriesTable
from pyebpf.bpftrace.tables import Gathered
from pyebpf.bpftrace.translate.maps import READABLE, read_gathered
from pyebpf.bpftrace.translate.storage import Stored
from pyebpf.bpftrace.value_types import Aggregate
from pyebpf.builder.values.entries import MapEntries
from pyebpf.maps.for_each import for_each_loop

if TYPE_CHECKING:
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.value_types import ValueType


def for_map(s: Scope, node: ast.For, over: ast.Map) -> None:
    """A loop over a map: the variable is (key, value), as they are when the entry is visited."""
    from pyebpf.bpftrace.translate.statements import run_block

    table = s.script.maps.table(over)
    if table is None:
        return
    if isinstance(table.value_type, Aggregate) and table.value_type.kind not in READABLE:
        raise s.error(
            f"{table.name} is filled by {table.value_type.kind}(), which a loop does not go over: print() shows it",
            over,
        )
    if table.key_type is None:
        raise s.error(f"{table.name} has no keys to go over", over)
    assert not isinstance(table, SeriesTable)  # which no loop goes over
    carried = s.storage.numbers(s.variables.in_loops.get(id(node)))
    outer, name = s.bound.get(node.variable.name), node.variable.name
    pointer = table.pointer() if isinstance(table, Gathered) else table
    entries = MapEntries(pointer, "items")
    with (
        for_each_loop(s.p, entries, carried, (), lambda _: (), changes=True) as (loop, element),
        s.storage.in_loop() as used,
    ):
        assert isinstance(element, tuple)
        s.map_loops.append(loop)
        s.loops.append(loop.loop)
        key = _kept(s, table.key_type, element[0])
        if isinstance(table, Gathered):
            # The kernel gives the part of this processor, and the value is that of all.
            total = read_gathered(s, table, key.read(s.p), over)
            value = _kept(s, total.type, total.operand(s.p))
        else:
            value = _kept(s, table.value_type, element[1])
        s.bound[name] = (key, value)
        run_block(s, node.body)
        s.loops.pop()
        s.map_loops.pop()
    s.variables.note_loop(node, used)
    if outer is None:
        del s.bound[name]
    else:
        s.bound[name] = outer
    if loop.returns:
        with s.p.b.if_(loop.has_returned()):
            loop.restore()
            s.leave()


def _kept(s: Scope, type_: ValueType, part: object) -> Stored:
    """A part of an entry as it is now, where loops within this one read it, too: their bodies are other functions."""
    p = s.p
    slot = p.b.slot(-(-type_.storage.size // 8) * 8, name="part")
    p.store_value(p.b.slot_address(slot), 0, type_.storage, part)
    return Stored(type_, slot)
