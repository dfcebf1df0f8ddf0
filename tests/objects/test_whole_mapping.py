"""A mapping over a byte store read and written as a whole, against the same one key at a time. No kernel."""

from __future__ import annotations

import operator
from itertools import count

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.maps import mapping, snapshot
from pyebpf.maps.mapping import StoredMapping
from pyebpf.specs import MapSpec
from pyebpf.types import U16, U32, U64, Struct, char, type_of, u16, u32
from pyebpf.uapi.bpf import MapType
from pyebpf.vm.maps import make_map
from pyebpf.vm.memory import Memory

PROCESSORS, ROOM = 3, 512


class Place(Struct):
    disk: u16
    sector: u32


NUMBERS = st.integers(0, 65_535)
KEYS = {
    U32: st.one_of(st.integers(0, 300), st.integers(0, 0xFFFFFFFF)),
    type_of((U16, U32)): st.tuples(NUMBERS, NUMBERS),
    Place.layout: st.builds(Place, NUMBERS, NUMBERS),
    char[4]: st.text("abc", max_size=3),
}
VALUES = {U64: st.integers(0, (1 << 64) - 1), U16: NUMBERS, Place.layout: st.builds(Place, NUMBERS, NUMBERS)}


class Slow(StoredMapping):
    """Each entry by itself: as it is to be when all are read or written at once."""

    def read(self):
        return {self._decode_keys(key)[0]: self._decode_values(value)[0] for key, value in self.raw_items()}

    def write(self, given):
        for key, value in given.items():
            self.store.update_elem(self._encode_key(key), self._encode_value(value))


def over_store(cls, kind, key, value, few=7):
    """A mapping over a store of its own, which gives a few entries at a time, and counts how often it is read."""
    store = make_map(MapSpec("m", kind, key, value, ROOM), Memory(), PROCESSORS)
    whole = store.lookup_batches

    def some():
        store.readings += 1
        for keys, values, number in whole():
            for at in range(0, number, few):
                part = [
                    slice(at * (len(each) // number), (at + few) * (len(each) // number)) for each in (keys, values)
                ]
                yield keys[part[0]], values[part[1]], min(few, number - at)

    store.lookup_batches, store.readings = some, 0
    made = cls()
    made.bind(store)
    return made


WAYS = {
    "dict(m)": dict,
    "{**m}": lambda m: {**m},
    "d.update(m)": lambda m: (d := {}, d.update(m))[0],
    "snapshot": lambda m: m.snapshot(),
    "items": lambda m: dict(m.items()),
    "keys, values": lambda m: dict(zip(m.keys(), m.values(), strict=True)),
    "each key": lambda m: {key: m[key] for key in m},
    "list": lambda m: dict(zip(list(m), m.values(), strict=True)),
}


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(list(KEYS)), st.sampled_from(list(VALUES)), st.booleans())
def test_all_at_once_is_as_one_by_one(data, key, value, per_cpu):
    """By every way to read and to write all, of every shape of keys and values."""
    kind = MapType.PERCPU_HASH if per_cpu else MapType.HASH
    wanted = data.draw(st.dictionaries(KEYS[key], VALUES[value], max_size=40))
    slow = over_store(Slow, kind, key, value)
    slow.write(wanted)
    # In three parts: a dictionary, pairs, and what comes out of an iterator.
    pairs = list(wanted.items())
    made = over_store(StoredMapping, kind, key, value)
    made.update(dict(pairs[::3]))
    made.update(pairs[1::3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapping, "_PAIRS", 2)
        made.update(iter(pairs[2::3]))
    assert made.store.entries() == slow.store.entries()
    for name, way in WAYS.items():
        assert way(made) == slow.read(), name
        assert made._merge is None, name


def test_an_iterator_is_read_as_it_is_written(monkeypatch):
    """Two pairs at a time; a later value of a key is the one that stays."""
    monkeypatch.setattr(mapping, "_PAIRS", 2)
    made = over_store(StoredMapping, MapType.HASH, U32, U64)

    def pairs():
        for number in range(5):
            assert len(made) == min(number // 2 * 2, 3)
            yield number % 3, number

    made.update(pairs())
    assert dict(made) == {0: 3, 1: 4, 2: 2}
    with pytest.raises(TypeError):
        made.update(iter([5]))


def test_a_key_that_is_asked_for_between_is_read_then():
    """By what runs in the midst of dict(m): the hash of a key in Python. From there on each key is read anew."""
    made, running = None, count()

    class Noticed(Struct):
        number: u32

        def __hash__(self):
            if made is not None and next(running) == 3:
                following = Noticed(self.number + 1)
                made.store.update_elem(following.to_bytes(), (99).to_bytes(8, "little"))
                assert made[following] == 99
            return self.number

    over = over_store(StoredMapping, MapType.HASH, Noticed.layout, U64)
    over.update({Noticed(number): number for number in range(7)})
    made = over
    assert sorted(dict(over).values()) == [0, 1, 2, 3, 5, 6, 99]
    assert over._merge is None


@pytest.mark.parametrize("listed", [list, tuple, sorted, lambda m: [*m]])
def test_a_list_of_keys_reads_a_map_once(monkeypatch, listed):
    """The length, which list(m) asks for as a hint, is known from the keys."""
    monkeypatch.setattr(snapshot, "_MANY", 3)
    monkeypatch.setattr(snapshot, "_JUST_NOW", 60)
    made = over_store(StoredMapping, MapType.HASH, U32, U64)
    made.update(dict.fromkeys(range(100), 1))
    made.store.readings = 0
    assert sorted(listed(made)) == list(range(100))
    assert made.store.readings == 1
    made[100] = 1
    assert len(made) == 101
    assert made.store.readings == 2


@pytest.mark.parametrize(("many", "just_now", "readings"), [(3, 0, 3), (1_000, 60, 3), (3, 60, 2)])
def test_a_length_that_is_asked_for_later_is_counted(monkeypatch, many, just_now, readings):
    """Unless the map is large, and the keys were read just now from the same place."""
    monkeypatch.setattr(snapshot, "_MANY", many)
    monkeypatch.setattr(snapshot, "_JUST_NOW", just_now)
    made = over_store(StoredMapping, MapType.HASH, U32, U64)
    made.update(dict.fromkeys(range(100), 1))
    made.store.readings = 0
    for way in (iter, operator.length_hint, len):
        way(made)
    assert made.store.readings == readings
