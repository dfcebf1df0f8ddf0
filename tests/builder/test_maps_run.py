"""Maps and ring buffers of a fake kernel: what programs leave in them, and what they count as lost."""

from __future__ import annotations

from typing import Any

import pytest

from pyebpf.builder.drop_counters import DROPS_MAP
from pyebpf.builder.values.comparisons import compare, contains
from pyebpf.builder.values.operations import binary, is_none, to_int
from pyebpf.builder.values.records import StructConstructor
from pyebpf.maps.keyed import KeyedMap
from pyebpf.maps.ringbuf import RingBufferEntity
from pyebpf.types import S32, U8, U32, U64, CharArray, Struct, field, u8, u32, u64
from pyebpf.uapi.bpf import MapType
from tests.builder.fake_kernel import FakeKernel
from tests.builder.harness import Everything, Probe


class Row(Struct):
    flag: u8
    at: u64
    cells: list[int] = field(U32[6])
    raw: bytes = field(U8[5])
    name: str = field(CharArray(9))


class Small(Struct):
    flag: u8
    size: u32


class Run:
    """A finished program over fake maps."""

    def __init__(self, p: Probe, *, room: int = 1 << 20) -> None:
        self.p = p
        lost = p.drop_counters.spec()
        self.kernel = FakeKernel({**p.maps, **({DROPS_MAP: lost} if lost is not None else {})}, room=room)
        self.module = p.finish()

    def __call__(self, *words: int) -> int:
        return self.p.run_module(self.module, *words, helpers=self.kernel.helpers(), values=self.kernel.values)

    @property
    def lost(self) -> dict[str, int]:
        counts = self.kernel.read(DROPS_MAP)[0] if DROPS_MAP in self.kernel.specs else []
        return dict(zip(map(str, self.p.drop_counters.reasons), counts, strict=True))


def method(p: Probe, owner: Any, name: str, *arguments: Any) -> Any:
    return owner.attribute(p, name).call(p, arguments, {})


@pytest.mark.parametrize(("operator", "wanted"), [("+", 9), ("-", -9), ("|", 7), ("^", 3), ("&", 0)])
def test_an_augmented_entry_starts_from_zero(operator: str, wanted: int) -> None:
    p = Probe(Everything())
    values = KeyedMap("values", MapType.HASH, U32, S32, 4)
    values.augment_item(p, 1, operator, p.number(0))
    p.ret(0)
    run = Run(p)
    for number in (5, 4, 2) if operator in "|^" else (5, 4):
        run(number)
    assert run.kernel.read("values") == {1: wanted}


def test_what_does_not_fit_is_counted_for_each_map_and_reason() -> None:
    p = Probe()
    key = p.number(0, U64)
    full = KeyedMap("full", MapType.HASH, U32, U64, 2)
    added = KeyedMap("added", MapType.HASH, U32, U64, 2)
    cells = KeyedMap("cells", MapType.ARRAY, U32, U64, 3)
    events = RingBufferEntity("events", U64, 4096)
    full.augment_item(p, key, "+", 1)
    full.set_item(p, key, 5)
    is_new = method(p, added, "add", key, 7)
    cells.augment_item(p, key, "+", 1)
    cells.set_item(p, key, 9)
    events.emit(p, key)
    p.ret(is_new)
    run = Run(p, room=8 * 4)
    assert [run(i) for i in (0, 1, 2, 3, 1 << 32, 1)] == [1, 1, 0, 0, 0, 0]
    # The key 1 << 32 is 0 to a u32 key, and in the map already; to an array it is an index out of range.
    assert run.lost == {
        "full: map full": 4,
        "added: map full": 2,
        "cells: index out of range": 4,
        "events: ring buffer full": 2,
    }
    assert run.kernel.read("full") == {0: 5, 1: 5}
    assert run.kernel.read("cells") == {0: 9, 1: 9, 2: 9}
    assert [int.from_bytes(event, "little") for event in run.kernel.events] == [0, 1, 2, 3]


def test_get_pop_del_and_in_see_what_is_there() -> None:
    p = Probe()
    values = KeyedMap("values", MapType.HASH, U32, U32, 4)
    key = p.number(0, U32)
    found = method(p, values, "get", key)
    with p.b.if_(is_none(p, found)):
        values.set_item(p, key, 70)
        p.ret(method(p, values, "get", key, 5))
    popped = method(p, values, "pop", key)
    with p.b.if_(is_none(p, popped)):
        p.ret(1)
    with p.b.if_(contains(p, key, values)):
        p.ret(2)
    values.delete_item(p, key)
    total = binary(p, "+", binary(p, "*", popped, 1000), method(p, values, "get", key, 5))
    p.ret(binary(p, "+", total, binary(p, "*", found, 1000000)))
    run = Run(p)
    assert run(3) == 70
    assert run(3) == 70_070_005
    assert run.kernel.read("values") == {}


def test_records_are_stored_popped_and_sent_whole() -> None:
    p = Probe()
    rows = KeyedMap("rows", MapType.HASH, Small.layout, Row.layout, 4)
    events = RingBufferEntity("events", Row.layout, 4096)
    key = StructConstructor(Small).call(p, (1, p.number(0)), {}).local(p)
    row = StructConstructor(Row).call(p, (1, 2, [3, 4, 5, 6, 7, p.number(1)], b"abcde", "name"), {})
    rows.set_item(p, key, row)
    rows.set_item(p, StructConstructor(Small).call(p, (2, 9), {}), row.local(p))
    popped = method(p, rows, "pop", key)
    with p.b.if_(is_none(p, popped)):
        p.ret(1)
    events.emit(p, popped)
    events.emit(p, Row(9, 8, [0] * 6, b"54321", "known"))
    p.ret(0)
    run = Run(p)
    assert run(17, 8) == 0
    wanted = Row(1, 2, [3, 4, 5, 6, 7, 8], b"abcde", "name")
    assert run.kernel.read("rows") == {Small(2, 9): wanted}
    assert run.kernel.events == [wanted.to_bytes(), Row(9, 8, [0] * 6, b"54321", "known").to_bytes()]


def test_an_entry_is_read_and_changed_where_it_stands() -> None:
    """Fields of a shared record change by one atomic operation each, elements of its arrays too."""
    p = Probe()
    rows = KeyedMap("rows", MapType.ARRAY, U32, Row.layout, 2)
    index = p.number(0, U64)
    with p.b.if_(compare(p, ">=", index, 6)):
        p.ret(-1)
    row = rows.item(p, binary(p, "&", index, 1))
    row.augment_attribute(p, "at", "-", 3)
    row.set_attribute(p, "raw", b"fghij")
    cells = row.attribute(p, "cells")
    cells.augment_item(p, index, "+", 40)
    cells.set_item(p, 0, binary(p, "+", cells.item(p, index), 1))
    row.set_attribute(p, "name", "changed")
    local = (
        StructConstructor(Row).call(p, (0, 0, cells, row.attribute(p, "raw"), row.attribute(p, "name")), {}).local(p)
    )
    local.attribute(p, "cells").augment_item(p, index, "<<", 1)
    same = contains(p, row.attribute(p, "raw"), (b"abcde", b"fghij"))
    others = compare(p, "!=", local.attribute(p, "raw"), row.attribute(p, "raw"))
    name = local.attribute(p, "name")
    first = compare(p, "==", name.item(p, index), "c")
    total = binary(p, "+", local.attribute(p, "cells").item(p, index), to_int(p, same))
    p.ret(
        binary(
            p,
            "+",
            total,
            binary(p, "+", binary(p, "*", to_int(p, others), 1000), binary(p, "*", to_int(p, first), 2000)),
        )
    )
    run = Run(p)
    assert run(3) == 81
    assert run(0) == 2083
    assert run(6) == -1
    rest = (b"fghij", "changed")
    assert run.kernel.read("rows") == {
        0: Row(0, (1 << 64) - 3, [41, 0, 0, 0, 0, 0], *rest),
        1: Row(0, (1 << 64) - 3, [41, 0, 0, 40, 0, 0], *rest),
    }


def test_writing_an_entry_from_itself_reads_it_first() -> None:
    """The two strings of an entry change places."""

    class Pair(Struct):
        left: str = field(CharArray(8))
        right: str = field(CharArray(8))

    p = Probe()
    pairs = KeyedMap("pairs", MapType.ARRAY, U32, Pair.layout, 1)
    pairs.set_item(p, 0, Pair("left", "right"))
    pair = pairs.item(p, 0)
    swapped = StructConstructor(Pair).call(p, (pair.attribute(p, "right"), pair.attribute(p, "left")), {})
    pairs.set_item(p, 0, swapped)
    p.ret(0)
    run = Run(p)
    run()
    assert run.kernel.read("pairs") == {0: Pair("right", "left")}
