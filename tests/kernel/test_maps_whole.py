"""Maps read, written and emptied as a whole: in batches, whichever way Python asks for it."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.kernel import map_elements
from pyebpf.maps.keyed import HashMap
from pyebpf.objects import Map
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType

ENTRIES = 1_009
GIVEN = {key * 7: key * 3 for key in range(ENTRIES)}
ONE_BY_ONE = ("map_lookup_elem", "map_update_elem", "map_delete_elem", "map_get_next_key")


@pytest.fixture(params=["kernel", "declared"])
def counts(request):
    """A hash: the loaded map itself, and as a program declares it."""
    with Map(MapSpec("counts", MapType.HASH, U32, U64, ENTRIES)) as made:
        if request.param == "kernel":
            yield made
        else:
            declared = HashMap("counts", MapType.HASH, U32, U64, ENTRIES)
            declared.bind(made)
            yield declared


@pytest.fixture
def batches_only(monkeypatch):
    """Every system call for a single entry fails from here on."""

    def single(*_):
        pytest.fail("one system call an entry")

    def forbid():
        for name in ONE_BY_ONE:
            monkeypatch.setattr(map_elements, name, single)

    return forbid


WHOLE = {
    "dict(m)": dict,
    "{**m}": lambda m: {**m},
    "d.update(m)": lambda m: (d := {}, d.update(m))[0],
    "dict(m.items())": lambda m: dict(m.items()),
    "zip of views": lambda m: dict(zip(m.keys(), m.values(), strict=True)),
}


@pytest.mark.parametrize("way", WHOLE)
def test_reading_all_goes_in_batches(counts, batches_only, way):
    """1,009 entries, and none of them by a system call of its own."""
    batches_only()
    counts.update(GIVEN)
    found = WHOLE[way](counts)
    assert found == GIVEN
    assert type(next(iter(found))) is int
    assert sorted(counts) == sorted(GIVEN)
    assert sorted(counts.values()) == sorted(GIVEN.values())
    counts.clear()
    assert dict(counts) == {}
    assert len(counts) == 0


def test_any_mapping_type_reads_all(counts):
    """Those that ask for each key from code in Python read each."""
    counts.update(GIVEN)
    assert OrderedDict(counts) == GIVEN
    other = Map(MapSpec("other", MapType.HASH, U32, U64, ENTRIES))
    with other:
        other.update(counts)
        assert dict(other) == GIVEN


def change(owner, key):
    """Write past the object whose reading is tested, as a program in the kernel does."""
    backend = getattr(owner, "backend", owner)
    map_elements.map_update_elem(backend.fileno(), key.to_bytes(4, "little"), (99).to_bytes(8, "little"))


def keys_then_each(m):
    for key in m.keys():  # noqa: SIM118 - keys() itself is meant
        change(m, key)
        assert m[key] == 99


def listed_keys(m):
    keys = list(m.keys())
    for key in keys:
        change(m, key)
    assert [m[key] for key in keys] == [99] * ENTRIES


def iterated(m):
    for key in m:
        change(m, key)
        assert m[key] == 99


def in_one_line(m):
    assert {m[key] for key in m.keys() if change(m, key) is None} == {99}  # noqa: SIM118 - as above


def mapped(m):
    keys = m.keys()
    found = map(m.__getitem__, keys)
    for key in keys:
        change(m, key)
    assert set(found) == {99}


def cut_short(m):
    taken = 0

    def some():
        nonlocal taken
        for key in m.keys():  # noqa: SIM118 - as above
            taken += 1
            yield key
            if taken == 10:
                return

    assert len(dict.fromkeys(some())) == 10
    keys_then_each(m)


@pytest.mark.parametrize("read", [keys_then_each, listed_keys, iterated, in_one_line, mapped, cut_short])
def test_a_key_that_is_asked_for_is_read_then(counts, read):
    """Only dict() and its like, which leave no room for anything between, take what was read with the keys."""
    counts.update(GIVEN)
    read(counts)


def test_dict_beside_readers_in_other_threads(counts):
    """Threads that look keys up meanwhile, and make dictionaries of their own, find what the map holds."""
    counts.update(GIVEN)
    stop, wrong = threading.Event(), []

    def look_up():
        while not stop.is_set():
            try:
                assert counts[7] == 3
            except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
                wrong.append(error)

    def make(rounds):
        for _ in range(rounds):
            try:
                assert dict(counts) == GIVEN
            except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
                wrong.append(error)

    rounds = 7 if "PYEBPF_VM" in os.environ else 151  # an emulated processor switches threads most of the time
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=look_up), threading.Thread(target=make, args=(rounds,))]
    try:
        for thread in threads:
            thread.start()
        make(rounds)
    finally:
        threads[1].join()
        stop.set()
        threads[0].join()
        sys.setswitchinterval(switching)
    assert wrong == []


def test_the_caller_of_dict_is_not_kept(counts):
    """After the last key nothing of the caller is held."""
    counts.update(GIVEN)
    assert dict(counts) == GIVEN
    assert counts._merge is None


def test_popitem_empties_a_map(counts):
    """Each entry once; then KeyError. Entries that others take out meanwhile are passed over."""
    counts.update(GIVEN)
    taken = {}
    while counts:
        key, value = counts.popitem()
        assert key not in taken
        taken[key] = value
        if len(taken) % 100 == 0 and (gone := next(iter(counts), None)) is not None:
            taken[gone] = counts.pop(gone)
    assert taken == GIVEN
    with pytest.raises(KeyError):
        counts.popitem()
    counts[5] = 6
    assert counts
    assert counts.popitem() == (5, 6)


def test_views_are_of_one_moment():
    """Length, membership, comparison and order of the three views."""
    with Map(MapSpec("counts", MapType.PERCPU_HASH, U32, U64, 17)) as counts:
        counts.update({3: 4, 5: 6})
        keys, values, items = counts.keys(), counts.values(), counts.items()
        counts.clear()
        assert (len(keys), len(values), len(items)) == (2, 2, 2)
        assert 3 in keys
        assert 6 in values
        assert (5, 6) in items
        assert items == {(3, 4), (5, 6)}
        assert keys & {3, 9} == {3}
        assert list(reversed(items)) == list(items)[::-1]
        assert repr(sorted(items)) == "[(3, 4), (5, 6)]"
        assert repr(items).startswith("items([(")
        assert not counts
        counts[7] = 8
        assert [sum(each) for _, each in counts.per_cpu.items()] == [8]
        assert dict(counts.per_cpu)[7] == counts.per_cpu[7]


def test_arrays_are_cleared_and_keep_their_entries():
    """Every index is there before and after."""
    with Map(MapSpec("table", MapType.ARRAY, U32, U64, ENTRIES)) as table:
        table.update(dict.fromkeys(range(ENTRIES), 5))
        table.clear()
        assert table
        assert dict(table) == dict.fromkeys(range(ENTRIES), 0)
        with pytest.raises(InvalidValue, match="array"):
            table.popitem()
