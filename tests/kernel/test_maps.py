"""Kernel maps as Python mappings."""

from __future__ import annotations

import errno
from collections.abc import MutableMapping
from threading import Event, Thread

import pytest

from pyebpf.asm import build
from pyebpf.asm.build import R2, R3
from pyebpf.errors import InvalidValue, KernelError, NotLoaded
from pyebpf.kernel import map_elements
from pyebpf.kernel.cpus import possible_cpus
from pyebpf.kernel.descriptor import open_descriptors
from pyebpf.objects import Map, Program, elements
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.specs.map_traits import MAP_TRAITS
from pyebpf.types import S32, U8, U32, U64, CharArray, Struct, array_of, char, field, u16, u32
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import helper


class Flow(Struct):
    port: u16
    bytes: u32
    name: str = field(char[16])


def spec(kind: MapType = MapType.HASH, key=U32, value=U64, size: int = 1009, **more) -> MapSpec:
    return MapSpec("counts", kind, key, value, size, **more)


HASHES = (MapType.HASH, MapType.LRU_HASH, MapType.PERCPU_HASH, MapType.LRU_PERCPU_HASH)
ARRAYS = (MapType.ARRAY, MapType.PERCPU_ARRAY)


@pytest.mark.parametrize("kind", HASHES, ids=lambda kind: kind.name)
def test_a_hash_is_a_mapping(kind):
    """Store, read, test, remove, count, iterate; KeyError where there is nothing."""
    with Map(spec(kind, size=512)) as counts:
        assert isinstance(counts, MutableMapping)
        counts[3] = 33
        counts[4] = 1 << 63
        assert counts[3] == 33
        assert counts.get(5) is None
        assert 4 in counts
        assert 5 not in counts
        assert len(counts) == 2
        assert dict(counts.items()) == {3: 33, 4: 1 << 63}
        assert sorted(counts) == [3, 4]
        assert sorted(counts.values()) == [33, 1 << 63]
        del counts[3]
        with pytest.raises(KeyError):
            del counts[3]
        with pytest.raises(KeyError):
            counts[3]
        assert counts.pop(4) == 1 << 63
        assert counts.pop(4, None) is None
        with pytest.raises(KeyError):
            counts.pop(4)
        assert len(counts) == 0


@pytest.mark.parametrize("kind", ARRAYS, ids=lambda kind: kind.name)
def test_an_array_has_every_index_at_all_times(kind):
    """Zero at first; nothing can be removed; an index outside is not a key."""
    with Map(spec(kind, size=7)) as counts:
        counts[6] = 60
        assert dict(counts.items()) == {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 60}
        assert len(counts) == 7
        assert 7 not in counts
        with pytest.raises(KeyError):
            counts[7]
        with pytest.raises(InvalidValue, match="indices 0 to 6"):
            counts[7] = 1
        for removal in (lambda: counts.__delitem__(6), lambda: counts.pop(6), counts.drain):
            with pytest.raises(InvalidValue, match="always exist"):
                removal()
        counts.clear()
        assert set(counts.values()) == {0}


@pytest.mark.parametrize("kind", [*HASHES, *ARRAYS], ids=lambda kind: kind.name)
def test_thousands_of_entries_come_back_exactly(kind):
    """10,007 entries through batches."""
    with Map(spec(kind, size=20_011 if kind.name.startswith("LRU") else 10_007)) as counts:
        wanted = {number: number * number for number in range(10_007)}
        fill(counts, wanted)
        got = counts.snapshot()
        assert {key: value for key, value in got.items() if key < 10_007 and value} == {
            key: value for key, value in wanted.items() if value
        }


def fill(counts: Map, wanted: dict) -> None:
    for key, value in wanted.items():
        counts[key] = value


@pytest.mark.parametrize("kind", HASHES, ids=lambda kind: kind.name)
def test_key_by_key_gives_the_same_as_batches(kind):
    """The way for kinds without batches."""
    with Map(spec(kind, size=2048)) as counts:
        fill(counts, {number: number for number in range(499)})
        key_size, value_size = 4, 8 * (possible_cpus() if MAP_TRAITS[kind].per_cpu else 1)
        one_by_one = {
            key: value
            for key, value, _ in elements.read_each(counts.fileno(), key_size, value_size, counts.max_entries)
        }
        assert one_by_one == dict(counts.raw_items())


@pytest.mark.parametrize("size", [1, 3, 8, 1009])
def test_a_full_hash_is_read_whole_whatever_its_buckets_hold(size):
    """ENOSPC for a crowded bucket is met by larger batches."""
    with Map(spec(key=U32, value=U32, size=size)) as counts:
        fill(counts, dict.fromkeys(range(size), 1))
        assert len(counts.snapshot()) == size


def test_a_bucket_larger_than_the_batch_is_no_loss(monkeypatch):
    """Batches of one element at first."""
    monkeypatch.setattr(elements, "_FIRST_BATCH", 1)
    monkeypatch.setattr(elements, "_BATCH_BYTES", 1)
    with Map(spec(size=997)) as counts:
        fill(counts, dict.fromkeys(range(997), 1))
        assert len(counts.snapshot()) == 997


def test_entries_that_stay_are_seen_exactly_once_while_others_come_and_go():
    """A thread adds and removes other keys all the time."""
    with Map(spec(size=4096)) as counts:
        fill(counts, dict.fromkeys(range(503), 7))
        stop = Event()

        def churn() -> None:
            number = 1000
            while not stop.is_set():
                counts[number] = 1
                counts.pop(number - 100, None)
                number = 1000 + (number + 1) % 1500

        worker = Thread(target=churn)
        worker.start()
        try:
            for _ in range(20):
                seen = [key for key, _ in counts.raw_items() if int.from_bytes(key, "little") < 503]
                assert len(seen) == len(set(seen)) == 503
        finally:
            stop.set()
            worker.join()


@pytest.mark.parametrize("kind", [MapType.PERCPU_HASH, MapType.PERCPU_ARRAY], ids=lambda kind: kind.name)
def test_per_cpu_integers_are_summed_and_listed(kind):
    """Each possible processor has a slot; storing one number gives that sum."""
    with Map(spec(kind, value=S32, size=5)) as counts:
        cpus = possible_cpus()
        slots = b"".join((index - 3).to_bytes(4, "little", signed=True) + bytes(4) for index in range(cpus))
        map_elements.map_update_elem(counts.fileno(), (2).to_bytes(4, "little"), slots)
        assert counts.per_cpu[2] == [index - 3 for index in range(cpus)]
        assert counts[2] == sum(index - 3 for index in range(cpus))
        counts[2] = -9
        assert counts[2] == sum(counts.per_cpu[2]) == -9
        with pytest.raises(KeyError):
            counts.per_cpu[77]


def test_other_per_cpu_values_are_lists():
    """A record for each processor."""
    with Map(spec(MapType.PERCPU_HASH, value=Flow.layout, size=5)) as flows:
        records = [Flow(port=index, bytes=2, name="n") for index in range(possible_cpus())]
        flows[1] = records
        assert flows[1] == records
        with pytest.raises(InvalidValue, match="processors"):
            flows[1] = [*records, records[0]]


def test_only_per_cpu_maps_have_per_cpu_values():
    """The message names the kind."""
    with Map(spec()) as counts, pytest.raises(InvalidValue, match="HASH"):
        _ = counts.per_cpu


@pytest.mark.parametrize(
    ("key", "value", "items"),
    [
        (CharArray(16), U64, {"bash": 1, "": 2, "fünf": 3, "\udcff": 4}),
        (U32, Flow.layout, {1: Flow(80, 9, "http"), 2: Flow(53, 0, "")}),
        (Flow.layout, U8, {Flow(1, 2, "x"): 255}),
        (U64, CharArray(8), {1 << 63: "seven by"[:7]}),
        (U32, array_of(U32, 3), {0: [1, 2, 3]}),
        (array_of(U8, 4), U32, {b"\0\1\2\3": 1}),
    ],
    ids=["char-u64", "u32-struct", "struct-u8", "u64-char", "u32-array", "bytes-u32"],
)
def test_keys_and_values_of_every_type(key, value, items):
    """What was stored comes back, one by one and all at once."""
    with Map(spec(key=key, value=value)) as table:
        table.update(items)
        assert dict(table.items()) == items
        assert {each: table[each] for each in items} == items


@pytest.mark.parametrize("wrong", [-1, 1 << 32, "x", None, 1.5])
def test_a_key_that_does_not_fit_is_refused(wrong):
    """Nothing is cut."""
    with Map(spec()) as counts:
        with pytest.raises(InvalidValue):
            counts[wrong] = 1
        with pytest.raises(InvalidValue):
            counts.get(wrong)


def test_a_full_hash_says_so_with_its_size():
    """The message tells what to do."""
    with Map(spec(size=2)) as counts:
        counts[1] = counts[2] = 1
        with pytest.raises(KernelError, match="it holds 2 entries; give it a larger size") as caught:
            counts[3] = 1
        assert caught.value.errno == errno.E2BIG


def test_add_inserts_only_what_is_missing():
    """NOEXIST."""
    with Map(spec()) as counts:
        assert counts.add(1, 10)
        assert not counts.add(1, 11)
        assert counts[1] == 10


def test_an_lru_map_gives_way():
    """Older entries go; nothing is ever full."""
    with Map(spec(MapType.LRU_HASH, size=64)) as counts:
        fill(counts, dict.fromkeys(range(1009), 1))
        assert 0 < len(counts) <= 64


@pytest.mark.parametrize("kind", HASHES, ids=lambda kind: kind.name)
def test_drain_takes_everything_once(kind):
    """The second call has nothing."""
    with Map(spec(kind, size=1024)) as counts:
        wanted = {number: number + 1 for number in range(211)}
        fill(counts, wanted)
        assert counts.drain() == wanted
        assert counts.drain() == {}
        counts[1] = 1
        counts.clear()
        assert not counts


def test_intervals_are_differences():
    """What was gained since the call before; nothing is removed; a key that went and came back counts anew."""
    with Map(spec()) as counts:
        counts.update({1: 10, 2: 20})
        assert counts.interval() == {1: 10, 2: 20}
        counts[1] = 13
        assert counts.interval() == {1: 3}
        assert counts.interval() == {}
        del counts[2]
        counts[2] = 5
        assert counts.interval() == {2: 5}
        assert dict(counts.items()) == {1: 13, 2: 5}


@pytest.mark.parametrize("kind", [MapType.HASH, MapType.PERCPU_HASH])
def test_an_interval_has_all_of_a_key_that_was_removed(kind):
    """Whichever way it was removed, and though it has more than before by then; others are differences."""
    ways = (
        lambda counts: counts.__delitem__(1),
        lambda counts: counts.pop(1),
        lambda counts: counts.remove([1]),
        lambda counts: counts.clear(),
        lambda counts: counts.drain(),
        lambda counts: [counts.popitem(), counts.popitem()],
    )
    with Map(spec(kind)) as counts:
        for number, remove in enumerate(ways):
            counts.update({1: 10, 2: 20 + number})
            counts.interval()
            remove(counts)
            rest = dict(counts.items())
            counts[1] = 15
            assert counts.interval() == {1: 15}
            assert 2 in rest or number > 2
            counts.clear()
    with Map(MapSpec("cells", MapType.ARRAY, U32, U64, 2)) as cells:
        cells[1] = 10
        assert cells.interval() == {1: 10}
        cells.clear()
        cells[1] = 15
        assert cells.interval() == {1: 15}


def test_initial_entries_are_there_and_a_frozen_map_refuses_writes():
    """Written before any program runs; every processor's slot of a per-CPU map gets the value."""
    initial = tuple((U32.encode(n), U64.encode(n * 3)) for n in range(5))
    with Map(spec(initial=initial, frozen=True)) as counts:
        assert dict(counts.items()) == {n: n * 3 for n in range(5)}
        with pytest.raises(KernelError, match="frozen"):
            counts[1] = 1
    with Map(spec(MapType.PERCPU_HASH, initial=initial)) as counts:
        assert counts.per_cpu[4] == [12] * possible_cpus()


def test_a_closed_map_is_not_loaded():
    """NotLoaded, whatever is asked."""
    counts = Map(spec())
    counts.close()
    counts.close()
    for use in (lambda: counts[1], lambda: counts.__setitem__(1, 1), lambda: len(counts), counts.snapshot):
        with pytest.raises(NotLoaded, match="counts"):
            use()


def test_an_array_is_cleared_where_the_kernel_has_no_batches_for_it(monkeypatch):
    """Entry by entry, as per-CPU arrays before Linux 5.13."""
    monkeypatch.setattr(map_elements, "map_update_batch", lambda *_: (0, 524))  # ENOTSUPP
    with Map(spec(MapType.PERCPU_ARRAY, size=7)) as counts:
        counts[6] = 60
        counts.clear()
        assert dict(counts.items()) == dict.fromkeys(range(7), 0)


def test_a_per_cpu_value_over_32_kib_is_too_large():
    """E2BIG; of older kernels ENOMEM."""
    with pytest.raises(KernelError, match=r"too large|no memory"):
        Map(spec(MapType.PERCPU_ARRAY, value=array_of(U64, 4097), size=1))


def test_a_ring_buffer_has_no_items():
    """It is read as events."""
    with Map(MapSpec("ring", MapType.RINGBUF, None, None, 4096)) as ring:
        with pytest.raises(InvalidValue, match="events"):
            ring.snapshot()
        with pytest.raises(InvalidValue, match="events"):
            ring[0]


def test_maps_are_compared_by_identity():
    """Two maps of equal content are two."""
    with Map(spec()) as one, Map(spec()) as other:
        assert one != other
        assert len({one, other}) == 2


def test_no_descriptor_is_left_by_a_map_that_could_not_be_filled():
    """An initial entry beyond the array."""
    before = open_descriptors()
    with pytest.raises(KernelError, match="entry 1 of 2"):
        Map(spec(MapType.ARRAY, size=1, initial=((U32.encode(0), U64.encode(0)), (U32.encode(9), U64.encode(0)))))
    assert open_descriptors() == before


def test_stack_traces_are_read_one_by_one():
    """Their kind has no batches; a trace is a list of addresses, zeros at its end."""
    code = (
        build.load_map(R2, "stacks"), build.mov64(R3, 0), build.call(helper("get_stackid").id), build.exit_(),
    )  # fmt: skip
    described = MapSpec("stacks", MapType.STACK_TRACE, U32, array_of(U64, 127), 64)
    spec_ = ProgramSpec("probe", ProgramType.RAW_TRACEPOINT, Code(code, (FunctionStart("probe", 0),)))
    with Map(described) as stacks, Program(spec_, {"stacks": stacks}) as program:
        number = program.test_run().retval
        assert list(stacks) == [number]
        (trace,) = stacks.values()
        assert trace == stacks[number]
        assert len(trace) == 127
        assert trace[0] > 1 << 63
        assert trace[-1] == 0
        stacks.clear()
        assert len(stacks) == 0
