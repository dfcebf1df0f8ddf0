"""Arrays in keys of maps, and intervals of records: the same in the kernel's maps and in the interpreter's."""

from __future__ import annotations

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.maps import over
from pyebpf.objects import Map
from pyebpf.specs import MapSpec
from pyebpf.types import U8, U32, Struct, array_of, char, field, u16, u32, u64
from pyebpf.uapi.bpf import MapType
from pyebpf.vm import Machine

FOUR = array_of(U32, 4)


class Endpoint(Struct):
    words: list[int] = field(FOUR)
    port: u16


class Pair(Struct):
    local: Endpoint
    remotes: list[Endpoint] = field(array_of(Endpoint.layout, 2))


class Traffic(Struct):
    packets: u32
    sizes: list[int] = field(array_of(U32, 2))


class Named(Struct):
    count: u64
    name: str = field(char[8])


@pytest.fixture(params=["kernel", "interpreter"])
def make(request):
    """Function from the arguments of a MapSpec to its Python side."""
    opened = []

    def table(kind, key, value):
        spec = MapSpec("m", kind, key, value, 16)
        if request.param == "interpreter":
            return over(Machine([spec], cpus=2).maps["m"])
        opened.append(Map(spec))
        return opened[-1]

    yield table
    for each in opened:
        each.close()


def endpoint(port):
    return Endpoint([1, 2, 3, port], port)


def test_records_with_arrays_are_keys(make):
    """They read back, at any depth, and find their value however the array is given."""
    counts = make(MapType.HASH, Pair.layout, U32)
    keys = [Pair(endpoint(n), [endpoint(n + 1), endpoint(n + 2)]) for n in range(3)]
    for number, key in enumerate(keys):
        counts[key] = number
    assert dict(counts) == dict(counts.items()) == {key: number for number, key in enumerate(keys)}
    assert {type(key.remotes) for key in counts} == {type(key.local.words) for key in counts} == {tuple}
    assert counts[Pair(Endpoint((1, 2, 3, 1), 1), (endpoint(2), endpoint(3)))] == 1
    assert counts.interval() == {keys[1]: 1, keys[2]: 2}
    assert counts.drain() == {key: number for number, key in enumerate(keys)}


def test_an_array_is_a_key(make):
    """It reads back as a tuple, an array of arrays as a tuple of tuples; a value stays a list."""
    counts = make(MapType.HASH, array_of(array_of(U32, 2), 2), FOUR)
    counts[(1, 2), (3, 4)] = [5, 6, 7, 8]
    assert dict(counts) == {((1, 2), (3, 4)): [5, 6, 7, 8]}
    assert counts[[[1, 2], [3, 4]]] == [5, 6, 7, 8]


def test_records_of_one_content_are_equal():
    """Whether an array was given as a list or as a tuple; their hashes agree."""
    assert Endpoint([1, 2, 3, 4], 5) == Endpoint((1, 2, 3, 4), 5) != Endpoint((1, 2, 3, 5), 5)
    assert len({Endpoint([1, 2, 3, 4], 5), Endpoint((1, 2, 3, 4), 5)}) == 1


def test_intervals_of_records(make):
    """Each integer's gain, in arrays too; a record of which anything shrank counts anew."""
    traffic = make(MapType.HASH, U32, Traffic.layout)
    traffic[1], traffic[2] = Traffic(2, [10, 20]), Traffic(0, [0, 0])
    assert traffic.interval() == {1: Traffic(2, [10, 20])}
    traffic[1], traffic[2] = Traffic(5, [10, 27]), Traffic(0, [1, 0])
    assert traffic.interval() == {1: Traffic(3, [0, 7]), 2: Traffic(0, [1, 0])}
    traffic[1] = Traffic(6, [1, 0])
    assert traffic.interval() == {1: Traffic(6, [1, 0])}
    assert traffic.interval() == {}


def test_intervals_of_records_by_processor(make):
    """A list with the gain of each processor."""
    traffic = make(MapType.PERCPU_HASH, U32, Traffic.layout)
    traffic[1] = Traffic(2, [1, 1])
    slots = len(traffic[1])
    idle = [Traffic(0, [0, 0])] * (slots - 1)
    assert traffic.interval() == {1: [Traffic(2, [1, 1]), *idle]}
    traffic[1] = [Traffic(2, [1, 1]), *[Traffic(0, [0, 3])] * (slots - 1)]
    assert traffic.interval() == {1: [Traffic(0, [0, 0]), *[Traffic(0, [0, 3])] * (slots - 1)]}


@pytest.mark.parametrize(
    ("value", "part"), [(Named.layout, r"Named.name .*char\[8\]"), (array_of(U8, 4), r"a value of this one .*u8\[4\]")]
)
def test_what_has_no_difference(make, value, part):
    """It is refused at the first call, even if nothing has been counted."""
    with pytest.raises(InvalidValue, match=rf"interval\(\) subtracts integers, and {part}: read the map by snapshot"):
        make(MapType.HASH, U32, value).interval()
