"""What the builder makes passes the verifier, with and without the newest instructions, and does what it says."""

from __future__ import annotations

import functools
import random
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.builder.drop_counters import DROPS_MAP, FULL
from pyebpf.builder.intrinsics.task import comm
from pyebpf.builder.loops import range_loop
from pyebpf.builder.values.comparisons import compare, contains, maximum, minimum
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.operations import absolute, binary, is_none, to_int
from pyebpf.builder.values.records import StructConstructor
from pyebpf.compiler import compile_module
from pyebpf.compiler.ir import Op
from pyebpf.events import RingBuffer
from pyebpf.maps.keyed import OUT_OF_RANGE, KeyedMap
from pyebpf.maps.ringbuf import NO_ROOM, RingBufferEntity
from pyebpf.objects import Map, Program
from pyebpf.runtime.host import host_target
from pyebpf.specs import ProgramSpec
from pyebpf.types import S32, S64, U8, U16, U32, U64, CharArray, IntType, Struct, field, u8, u16, u32, u64
from pyebpf.uapi.bpf import MapType, ProgramType
from tests.builder.harness import Nothing, Probe
from tests.builder.test_integers import ARITHMETIC, EDGES, RELATIONS, TYPES, model
from tests.support.needs import needs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EVERY_TARGET = pytest.mark.parametrize("target", ["host", "oldest"], indirect=True)


def no_formats() -> Any:
    """No program here asks for a tracepoint's fields."""
    raise AssertionError


@functools.cache
def host() -> Any:
    """This kernel, asked once."""
    return host_target(no_formats)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Any:
    """What this kernel has, or what Linux 6.1 has."""
    return host() if request.param == "host" else Nothing()


class Loaded:
    """A program in the kernel with its maps."""

    def __init__(self, program: Program, maps: Mapping[str, Map]) -> None:
        self.program = program
        self.maps = maps

    def run(self, *words: int) -> int:
        """Run once; what it returned (32 bits)."""
        context = b"".join((word % (1 << 64)).to_bytes(8, "little") for word in words or (0,))
        return self.program.test_run(context=context).retval


@contextmanager
def loaded(p: Probe, target: Any) -> Iterator[Loaded]:
    """Compile, check, make the maps, load."""
    module = p.finish()
    code = compile_module(module, target, check=True)
    lost = p.drop_counters.spec()
    specs = {**p.maps, **({DROPS_MAP: lost} if lost is not None else {})}
    maps = {name: Map(spec) for name, spec in specs.items()}
    try:
        with Program(ProgramSpec("test", ProgramType.RAW_TRACEPOINT, code), maps) as program:
            yield Loaded(program, maps)
    finally:
        for made in maps.values():
            made.close()


@EVERY_TARGET
def test_the_integer_table_holds_in_the_kernel(target: Any, machine_release: str | None) -> None:
    """Every operator over every pair of types: results equal CPython's, wrapped, for extreme operands."""
    chance = random.Random(20261120)
    words = [*EDGES, *(-edge for edge in EDGES)]
    jobs = [(s, left, right) for s in (*ARITHMETIC, *RELATIONS, "min", "max") for left in TYPES for right in TYPES]
    chance.shuffle(jobs)
    if machine_release is not None:
        del jobs[len(jobs) // 5 :]  # an emulator takes a minute and a half for all
    compared = 0
    for start in range(0, len(jobs), 31):
        p = Probe()
        results = KeyedMap("results", MapType.ARRAY, U32, U64, 31)
        taken: list[tuple[int, str, IntType, IntType]] = []
        for symbol, left_type, right_type in jobs[start : start + 31]:
            if symbol in ("//", "%") and U64 in (left_type, right_type) and (left_type.signed or right_type.signed):
                continue
            left, right = p.number(0, left_type), p.number(1, right_type)
            value: Any
            if symbol in ARITHMETIC:
                value = binary(p, symbol, left, right)
            elif symbol in RELATIONS:
                value = to_int(p, compare(p, symbol, left, right))
            else:
                value = (minimum if symbol == "min" else maximum)(p, left, right)
            results.set_item(p, len(taken), value.convert(p, U64))
            taken.append((len(taken), symbol, left_type, right_type))
        p.ret(0)
        with loaded(p, target) as program:
            for _ in range(9):
                pair = chance.choice(words), chance.choice(words)
                program.run(*pair)
                found = program.maps["results"]
                for index, symbol, left_type, right_type in taken:
                    a, b = left_type.wrap(pair[0]), right_type.wrap(pair[1])
                    if symbol in ARITHMETIC:
                        unsigned = left_type == U64, right_type == U64
                        wanted = model(symbol, a, b, left_unsigned=unsigned[0], right_unsigned=unsigned[1])
                    elif symbol in RELATIONS:
                        wanted = int(RELATIONS[symbol](a, b))
                    else:
                        wanted = min(a, b) if symbol == "min" else max(a, b)
                    assert found[index] == wanted % (1 << 64), (symbol, left_type, right_type, a, b)
                    compared += 1
    assert compared > (5000 if machine_release is None else 1000)


@EVERY_TARGET
@pytest.mark.parametrize("kind", [MapType.HASH, MapType.PERCPU_HASH, MapType.LRU_HASH, MapType.LRU_PERCPU_HASH])
@pytest.mark.parametrize("type_", [U32, S32, U64, S64], ids=str)
def test_counts_in_hashes_are_exact(target: Any, kind: MapType, type_: IntType) -> None:
    """23 additions and 6 subtractions under one key, 1 under another."""
    p = Probe()
    counts = KeyedMap("counts", kind, U32, type_, 64)
    counts.augment_item(p, p.number(0, U32), "+", p.number(1, S64))
    p.ret(0)
    with loaded(p, target) as program:
        for _ in range(23):
            program.run(7, 5)
        for _ in range(6):
            program.run(7, -3)
        program.run(8, 1)
        assert dict(program.maps["counts"].items()) == {7: 23 * 5 - 6 * 3, 8: 1}


@EVERY_TARGET
def test_what_a_full_hash_could_not_count_is_counted_as_lost(target: Any) -> None:
    """Room for 5, and 23 keys: 18 losses of each kind of write."""
    p = Probe()
    counts = KeyedMap("counts", MapType.HASH, U32, U64, 5)
    starts = KeyedMap("starts", MapType.HASH, U32, U64, 5)
    added = KeyedMap("added", MapType.HASH, U32, U64, 5)
    key = p.number(0, U32)
    counts.augment_item(p, key, "+", 1)
    starts.set_item(p, key, 3)
    test = added.attribute(p, "add").call(p, (key, 9), {})
    p.ret(test)
    with loaded(p, target) as program:
        new = sum(program.run(i) for i in range(23))
        again = sum(program.run(i) for i in range(5))
        assert (new, again) == (5, 0)
        losses = p.drop_counters.reasons
        assert [str(loss) for loss in losses] == [f"{name}: {FULL}" for name in ("counts", "starts", "added")]
        assert program.maps[DROPS_MAP][0] == [18, 18, 18]


@EVERY_TARGET
@pytest.mark.parametrize("kind", [MapType.ARRAY, MapType.PERCPU_ARRAY])
def test_counts_outside_an_array_are_counted_as_lost(target: Any, kind: MapType) -> None:
    """An index beyond 32 bits does not fold back into the range."""
    p = Probe()
    counts = KeyedMap("counts", kind, U32, U64, 7)
    counts.augment_item(p, p.number(0, U64), "+", 1)
    p.ret(0)
    with loaded(p, target) as program:
        for index in (0, 6, 6, 7, 1 << 32, (1 << 32) + 3, (1 << 64) - 1):
            program.run(index)
        assert [program.maps["counts"][i] for i in range(7)] == [1, 0, 0, 0, 0, 0, 2]
        assert program.maps[DROPS_MAP][0] == [4]
        assert p.drop_counters.reasons[0].reason == OUT_OF_RANGE


@EVERY_TARGET
@pytest.mark.parametrize("entries", [1, 4])
@pytest.mark.parametrize("kind", [MapType.ARRAY, MapType.PERCPU_ARRAY])
def test_array_entries_are_read_and_written_by_index(target: Any, kind: MapType, entries: int) -> None:
    """Constant indices, direct access of a single entry, and a masked index."""
    p = Probe()
    values = KeyedMap("values", kind, U32, S32, entries)
    values.set_item(p, 0, p.number(0, S32))
    values.augment_item(p, 0, "-", 5)
    masked = binary(p, "&", p.number(1, U64), entries - 1)
    p.ret(values.item(p, masked))
    with loaded(p, target) as program:
        assert program.run(-7, entries * 16) == (1 << 32) - 12
        assert program.run(12, 0) == 7


@EVERY_TARGET
def test_get_takes_a_snapshot_and_del_removes(target: Any) -> None:
    """get, get with a default, in, pop and del, of a map of integers."""
    p = Probe()
    values = KeyedMap("values", MapType.HASH, U32, U32, 8)
    key = p.number(0, U32)
    answer = KeyedMap("answer", MapType.ARRAY, U32, U64, 5)
    before = values.attribute(p, "get").call(p, (key,), {})
    answer.set_item(p, 0, values.attribute(p, "get").call(p, (key, 99), {}))
    answer.set_item(p, 1, contains(p, key, values))
    popped = values.attribute(p, "pop").call(p, (key,), {})
    answer.set_item(p, 2, contains(p, key, values))
    with p.b.if_(is_none(p, before)):
        p.ret(1)
    with p.b.else_():
        answer.set_item(p, 3, binary(p, "+", before, 1))
        with p.b.if_(is_none(p, popped)):
            p.ret(2)
        answer.set_item(p, 4, popped)
        values.delete_item(p, binary(p, "+", key, 1))
    p.ret(0)
    with loaded(p, target) as program:
        program.maps["values"][3] = 17
        program.maps["values"][4] = 19
        assert program.run(2) == 1
        assert list(program.maps["answer"].values())[:3] == [99, 0, 0]
        assert program.run(3) == 0
        assert list(program.maps["answer"].values()) == [17, 1, 0, 18, 17]
        assert dict(program.maps["values"].items()) == {}


@EVERY_TARGET
@pytest.mark.parametrize("kind", [MapType.ARRAY, MapType.PERCPU_ARRAY])
def test_the_only_entry_of_an_array_is_always_there(target: Any, kind: MapType) -> None:
    """get, a second check, and `in`, where the entry is addressed directly."""
    p = Probe()
    only = KeyedMap("only", kind, U32, U64, 1)
    only.set_item(p, 0, 41)
    found = only.attribute(p, "get").call(p, (0,), {})
    with p.b.if_(is_none(p, found)):
        p.ret(1)
    with p.b.if_(is_none(p, found)):
        p.ret(2)
    p.ret(binary(p, "+", found, to_int(p, contains(p, 0, only))))
    with loaded(p, target) as program:
        assert program.run() == 42


class Inner(Struct):
    left: u8
    right: u32


class Outer(Struct):
    at: u64
    flag: u8
    inner: Inner
    small: u16
    name: str = field(CharArray(21))
    total: u64 = 5


@EVERY_TARGET
def test_records_go_through_maps_and_ring_buffers_whole(target: Any) -> None:
    """Built in place, read by field, nested, changed, copied, emitted; padding is zero."""
    p = Probe()
    name = Path("/proc/thread-self/comm").read_text(encoding="utf-8").strip()
    inner, outer = StructConstructor(Inner), StructConstructor(Outer)
    stored = KeyedMap("stored", MapType.HASH, Inner.layout, Outer.layout, 8)
    events = RingBufferEntity("events", Outer.layout, 4096)
    key = inner.call(p, (3, p.number(0, U32)), {})
    value = outer.call(
        p,
        (p.number(1, U64),),
        {"flag": 1, "inner": inner.call(p, (9, 10), {}), "small": p.number(2, U16), "name": comm.call(p, (), {})},
    )
    stored.set_item(p, key, value)
    entry = stored.attribute(p, "get").call(p, (key,), {})
    with p.b.if_(is_none(p, entry)):
        p.ret(1)
    entry.augment_attribute(p, "total", "+", 37)
    entry.set_attribute(p, "small", 300)
    nested = entry.attribute(p, "inner")
    nested.set_attribute(p, "right", binary(p, "*", nested.attribute(p, "right"), 2))
    events.emit(p, entry)
    copy = outer.call(p, (1, 2, nested, 4), {"name": entry.attribute(p, "name")}).local(p)
    copy.augment_attribute(p, "at", "<<", 3)
    events.emit(p, copy)
    p.ret(compare(p, "==", copy.attribute(p, "name"), name))
    with loaded(p, target) as program:
        assert program.run(7, 1 << 40, 70000) == 1
        wanted = Outer(1 << 40, 1, Inner(9, 20), 300, name, 42)
        # As bytes, so that padding counts: what user space would have written, zeros in every hole.
        with RingBuffer(program.maps["events"]) as ring:
            assert ring.poll(0) == [wanted.to_bytes(), Outer(8, 2, Inner(9, 20), 4, name, 5).to_bytes()]
        assert dict(program.maps["stored"].items()) == {Inner(3, 7): wanted}


@EVERY_TARGET
def test_a_ring_buffer_without_room_counts_each_loss(target: Any) -> None:
    """A page of 4096 bytes holds all but 8 of records of 8 + 8: 255 of them, nobody reads, so 300 lose 45."""
    p = Probe()
    events = RingBufferEntity("events", U64, 4096)
    events.emit(p, p.number(0, U64))
    p.ret(0)
    with loaded(p, target) as program:
        for i in range(program.maps["events"].max_entries // 16 - 1 + 45):
            program.run(i)
        assert program.maps[DROPS_MAP][0] == [45]
        assert p.drop_counters.reasons[0].reason == NO_ROOM


@EVERY_TARGET
@pytest.mark.parametrize("length", [1, 2, 5, 8, 16, 21, 64])
def test_strings_have_a_length_and_items(target: Any, length: int) -> None:
    """len(), s[i], ==, startswith, in stack memory, for every length that fits."""
    p = Probe()
    source = KeyedMap("source", MapType.ARRAY, U32, CharArray(length), 1)
    slot = p.b.slot(72)
    place = p.b.slot_address(slot)
    text = source.item(p, 0)
    text.write_to(p, place, 0, CharArray(length))
    copy = p.load_value(Lvalue(base=place), CharArray(length))
    index = p.number(0, U64)
    size = to_int(p, copy.length(p))
    with p.b.if_(compare(p, "<", index, length)):
        p.ret(binary(p, "+", binary(p, "*", size, 256), copy.item(p, index)))
    p.ret(compare(p, "==", copy, text))
    with loaded(p, target) as program:
        for count in range(length):
            program.maps["source"][0] = "x" * count
            assert program.run(0) == 256 * count + (ord("x") if count else 0)
            assert program.run(length - 1) == 256 * count
            assert program.run(length) == 1


@EVERY_TARGET
def test_array_fields_are_indexed_within_bounds(target: Any) -> None:
    """A run-time index tested first, of a field of 6 numbers, in a map's entry and on the stack."""

    class Row(Struct):
        cells: list[int] = field(U32[6])
        raw: bytes = field(U8[5])

    p = Probe()
    rows = KeyedMap("rows", MapType.ARRAY, U32, Row.layout, 2)
    row = rows.item(p, 1)
    index = p.number(0, U64)
    with p.b.if_(compare(p, ">=", index, 6)):
        p.ret(1000)
    row.attribute(p, "cells").augment_item(p, index, "+", 7)
    local = StructConstructor(Row).call(p, (row.attribute(p, "cells"), b"abcde"), {}).local(p)
    local.attribute(p, "cells").set_item(p, 0, [None, 11][1])
    with p.b.if_(compare(p, "!=", local.attribute(p, "raw"), b"abcde")):
        p.ret(1001)
    p.ret(local.attribute(p, "cells").item(p, index))
    with loaded(p, target) as program:
        assert [program.run(i) for i in (5, 5, 0, 6)] == [7, 14, 11, 1000]
        assert program.maps["rows"][1].cells == [7, 0, 0, 0, 0, 14]


@EVERY_TARGET
@pytest.mark.parametrize(("start", "stop", "step"), [(0, 64, 1), (63, -1, -3), (0, "n", 1), ("n", 64, 2), (0, 1009, 1)])
def test_loops_that_may_be_left_early_pass_the_verifier(target: Any, start: Any, stop: Any, step: int) -> None:
    """A count for each round in a map, left where the event says so."""
    p = Probe()
    n = minimum(p, p.number(0, U64), 64)
    rounds = KeyedMap("rounds", MapType.ARRAY, U32, U64, 1)
    with range_loop(p, n if start == "n" else start, n if stop == "n" else stop, step) as (loop, index):
        with p.b.if_(compare(p, "==", index, p.number(1, S64))):
            p.b.break_(loop)
        rounds.augment_item(p, 0, "+", index)
    p.ret(0)
    with loaded(p, target) as program:
        total = 0
        for number, leave in ((64, 1 << 40), (37, 1 << 40), (0, 0), (64, 9), (200, 41)):
            n_value = min(number, 64)
            for i in range(n_value if start == "n" else start, n_value if stop == "n" else stop, step):
                if i == leave:
                    break
                total += i
            program.run(number, leave)
        assert program.maps["rounds"][0] == total


@pytest.mark.parametrize("carry", [False, True])
def test_a_hundred_thousand_rounds_are_iterated(carry: bool) -> None:
    """With an array indexed by the number, break, continue, and return from inside a nested loop."""
    target = host()
    needs("kfunc:bpf_iter_num_new")
    p = Probe(target)
    n = minimum(p, p.number(0, U64), 100_003)
    rounds = KeyedMap("rounds", MapType.ARRAY, U32, U64, 1000)
    total = p.b.variable(hint="total")
    p.b.write(total, p.b.const(0))
    with range_loop(p, 3, n, 2, [total]) as (loop, index):
        before = p.b.read(total)
        assert before is not None
        with p.b.if_(compare(p, "==", index, p.number(1, S64))):
            p.b.break_(loop)
        with p.b.if_(compare(p, "==", binary(p, "%", index, 7), 0)):
            p.b.continue_(loop)
        with range_loop(p, 0, 1009, 1, []) as (_, inner):
            with p.b.if_(compare(p, "==", binary(p, "+", inner, index), p.number(2, S64))):
                p.ret(4242)
            with p.b.if_(compare(p, ">", inner, 3)):
                p.b.break_(_)
        rounds.augment_item(p, binary(p, "%", index, 1000), "+", 1)
        if carry:
            p.b.write(total, p.b.binary(Op.ADD, before, p.b.const(1)))
    after = p.b.read(total)
    assert after is not None
    p.b.ret(after)
    with loaded(p, target) as program:
        assert program.run(1 << 50, -1, -1) == (sum(i % 7 != 0 for i in range(3, 100_003, 2)) if carry else 0)
        counts = [program.maps["rounds"][i] for i in range(1000)]
        assert sum(counts) == sum(i % 7 != 0 for i in range(3, 100_003, 2))
        program.run(1 << 50, 17, -1)
        assert sum(program.maps["rounds"][i] for i in range(1000)) == sum(counts) + 6
        assert program.run(1 << 50, -1, 20) == 4242
        assert program.run(2, -1, -1) == 0


def test_abs_is_wrapped_in_the_kernel() -> None:
    """The least number has no positive counterpart."""
    p = Probe()
    p.ret(compare(p, "==", absolute(p, p.number(0, S64)), p.number(0, S64)))
    with loaded(p, Nothing()) as program:
        assert [program.run(x) for x in (-(1 << 63), 5, -5)] == [1, 1, 0]
