"""Aggregations as user space reads them: processors put together, keys, intervals, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from pyebpf.aggregations import (
    Stats,
    counter,
    linear_hist,
    log2_hist,
    log_linear_hist,
    maximum,
    minimum,
    stats,
    total,
)
from pyebpf.builder.drop_counters import DROPS_MAP
from pyebpf.errors import CompileError, InvalidValue, NotLoaded, OnlyInProbe
from pyebpf.types import S64, U32, U64, Struct, char, field, u32
from pyebpf.uapi.bpf import MapType
from tests.aggregations.model import Added, store
from tests.builder.harness import Probe

if TYPE_CHECKING:
    from collections.abc import Callable

S64S = st.integers(-1 << 63, (1 << 63) - 1)
SINGLES: dict[str, Any] = {
    "counter": counter,
    "total": total,
    "minimum": minimum,
    "maximum": maximum,
    "stats": stats,
}


class Where(Struct):
    cpu: u32
    disk: str = field(char[12])


def spread(make: Callable[[], Any], values: list[tuple[int, int]], type_: Any = S64) -> Any:
    """An aggregation whose values, each with its processor, were added."""
    aggregation = make()
    processors = [Added(aggregation, type_) for _ in range(3)]
    for processor, value in values:
        processors[processor].add(value)
    aggregation.bind(store(*processors))
    return aggregation


@given(st.lists(st.tuples(st.integers(0, 2), S64S), max_size=7))
def test_processors_put_together_give_what_python_computes(values: list[tuple[int, int]]) -> None:
    """Minimum, maximum and statistics, over three processors; None and zeros where there was nothing."""
    numbers = [value for _, value in values]
    assert spread(minimum, values).snapshot() == min(numbers, default=None)
    assert spread(maximum, values).snapshot() == max(numbers, default=None)
    found = spread(stats, values).snapshot()
    assert (found.count, found.minimum, found.maximum) == (
        len(numbers),
        min(numbers, default=None),
        max(numbers, default=None),
    )


@pytest.mark.parametrize(("make", "worst"), [(minimum, (1 << 63) - 1), (maximum, -1 << 63)])
def test_the_worst_value_is_one(make: Callable[..., Any], worst: int) -> None:
    """It is not taken for none, with a key or without."""
    assert spread(make, [(0, worst)]).snapshot() == worst
    keyed = make(key=U32)
    added = Added(keyed, S64)
    added.add(worst, 7)
    keyed.bind(store(added))
    assert keyed.snapshot() == {7: worst}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-(1 << 40), 1 << 40)), max_size=7))
def test_totals_and_counters_are_sums(values: list[tuple[int, int]]) -> None:
    """A total of both signs; statistics with their average."""
    numbers = [value for _, value in values]
    assert spread(total, values).snapshot() == sum(numbers)
    found = spread(stats, values).snapshot()
    assert found.total == sum(numbers)
    assert found.average == (sum(numbers) / len(numbers) if numbers else 0.0)


def test_a_counter_counts_one_without_an_argument() -> None:
    """`add()` is `add(1)`; anything else must be given its value."""
    p = Probe()
    counter(name="c").attribute(p, "add").call(p, (), {})
    with pytest.raises(CompileError, match=r"add\(\) of the total t: missing a required argument: 'value'"):
        total(name="t").attribute(p, "add").call(p, (), {})


def test_unsigned_values_beyond_s64_count_as_the_greatest_s64() -> None:
    """For extremes, which are s64."""
    added = Added(maximum(), U64)
    for value in (5, (1 << 64) - 1):
        added.add(value)
    added.aggregation.bind(store(added))
    assert added.aggregation.snapshot() == (1 << 63) - 1


def test_each_key_has_its_own_value() -> None:
    """Inserted when it is first seen, from zeros; counts are per key."""
    keyed = log2_hist(key=U32, label="queue")
    added = Added(keyed, S64)
    for value, key in ((0, 7), (5, 7), (5, 7), (-3, 8)):
        added.add(value, key)
    keyed.bind(store(added))
    assert sorted(keyed) == [7, 8]
    assert len(keyed) == 2
    assert 7 in keyed
    assert 9 not in keyed
    assert keyed[7].total == 3
    assert keyed.get(9) is None
    assert keyed[7] == dict(keyed.items())[7]
    assert keyed[8].buckets[0].count == 1
    assert keyed[7].heading() == "queue = 7"
    with pytest.raises(KeyError):
        keyed[9]
    assert added.lost() == 0


@pytest.mark.parametrize("make", [log2_hist, counter, total, minimum, maximum, stats], ids=lambda f: f.__name__)
def test_a_key_without_room_is_counted_as_lost(make: Any) -> None:
    """Room for 5 keys of 23; those that have it are exact."""
    keyed = make(key=U32)
    added = Added(keyed, S64, capacity=5)
    for _ in range(2):
        for key in range(23):
            added.add(key + 1, key)
    keyed.bind(store(added))
    assert sorted(keyed) == [0, 1, 2, 3, 4]
    counted = added.values[DROPS_MAP].data
    assert sum(int.from_bytes(counted[i : i + 8], "little") for i in range(0, len(counted), 8)) == 36


def test_an_interval_is_what_came_since_the_last() -> None:
    """Unchanged keys are left out, and the first interval begins with the program."""
    keyed = log2_hist(key=U32)
    added = Added(keyed, S64)
    keyed.bind(store(added))
    added.add(5, 1)
    added.add(5, 2)
    assert {key: h.total for key, h in keyed.interval().items()} == {1: 1, 2: 1}
    added.add(9, 2)
    added.add(9, 3)
    second = keyed.interval()
    assert {key: h.total for key, h in second.items()} == {2: 1, 3: 1}
    assert [(b.low, b.count) for b in second[2].buckets if b.count] == [(8, 1)]
    assert keyed.interval() == {}
    assert {key: h.total for key, h in keyed.snapshot().items()} == {1: 1, 2: 2, 3: 1}


@given(st.lists(st.lists(st.integers(0, 1 << 20), max_size=5), max_size=4))
def test_intervals_add_up_to_the_snapshot(rounds: list[list[int]]) -> None:
    """For every kind that has intervals."""
    for make in (counter, total, stats, log2_hist, lambda: linear_hist(0, 1000, 50)):
        aggregation: Any = make()
        added = Added(aggregation, S64)
        aggregation.bind(store(added))
        intervals = []
        for values in rounds:
            for value in values:
                added.add(value)
            intervals.append(aggregation.interval())
        everything = aggregation.snapshot()
        if isinstance(everything, int):
            assert sum(intervals) == everything
        elif isinstance(everything, Stats):
            assert sum(each.count for each in intervals) == everything.count
            assert sum(each.total for each in intervals) == everything.total
        else:
            assert sum(each.total for each in intervals) == everything.total


def test_an_interval_of_statistics_has_no_extremes() -> None:
    """They cannot be told for a part of the time."""
    single = stats()
    added = Added(single, S64)
    single.bind(store(added))
    added.add(10)
    single.interval()
    added.add(4)
    assert single.interval() == Stats(1, 4)
    assert single.snapshot() == Stats(2, 14, 4, 10)


def test_intervals_begin_anew_when_a_program_is_loaded_again() -> None:
    """The new map is empty."""
    single = counter()
    for _ in range(2):
        added = Added(single, S64)
        single.bind(store(added))
        for _ in range(3):
            added.add(1)
        assert single.interval() == 3
        single.bind(None)


def test_reading_outside_with_is_refused() -> None:
    """Before a program is loaded, and after it is gone."""
    for aggregation in (log2_hist(name="lat"), log2_hist(key=U32, name="lat"), minimum(name="lat")):
        with pytest.raises(NotLoaded, match=r"lat is not loaded: read it inside `with bpf:`"):
            aggregation.snapshot() if not hasattr(aggregation, "keys") else aggregation.items()
    with pytest.raises(NotLoaded, match=r"^the set of statistics lat is not loaded"):
        stats(name="lat").snapshot()


def test_adding_is_for_probes() -> None:
    """Called by Python it raises OnlyInProbe."""
    keyed = stats(key=U32)
    added = Added(keyed, S64)
    added.add(3, 1)
    keyed.bind(store(added))
    for call in (lambda: keyed[1].add(3), lambda: log2_hist().add(3), lambda: counter().add(), lambda: total().add(2)):
        with pytest.raises(OnlyInProbe, match="inside a probe"):
            call()


def test_struct_keys_name_their_fields() -> None:
    """In headings, and in output made of labels."""
    keyed = log2_hist(key=Where)
    assert keyed._labels(Where(3, "vda")) == {"cpu": 3, "disk": "vda"}


def test_specs_are_the_values_and_a_shared_template() -> None:
    """Large values are inserted from a frozen array; small ones from the stack; one value needs neither."""
    keyed = log2_hist(key=Where, name="lat")
    values, zeros = keyed.specs()
    assert (values.name, values.type, values.max_entries, values.value.size) == ("lat", MapType.PERCPU_HASH, 1024, 528)
    assert (zeros.type, zeros.frozen, zeros.value.size, zeros.max_entries) == (MapType.ARRAY, True, 528, 1)
    assert log2_hist(key=U32, name="other").specs()[1] == zeros
    assert [len(make(key=U32).specs()) for make in (counter, total, minimum, maximum, stats)] == [1] * 5
    assert [len(make().specs()) for make in (log2_hist, counter, stats)] == [1] * 3
    keyed.name = "lat_2"
    assert keyed.specs()[0].name == "lat_2"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear_hist(0, 10, 0), "a step of at least 1, not 0"),
        (lambda: linear_hist(5, 5), "stop must be above start"),
        (lambda: linear_hist(0, 4095), "of 4095 steps is too large: at most 4094 fit"),
        (lambda: linear_hist(0, 1 << 62), "is too large"),
        (lambda: linear_hist(0, 4094, sums=True), "with sums=True has at most 4095 buckets, not 4096"),
        (lambda: linear_hist(0, 1 << 63, 1 << 60), "leaves the range of s64"),
        (lambda: log_linear_hist(6), "in 2\\*\\*1 to 2\\*\\*5, not 2\\*\\*6"),
        (lambda: log2_hist(key=3), "key=3 is not a type"),
        (lambda: counter(key=U32, size=0), "size=0"),
    ],
)
def test_shapes_that_cannot_be_are_refused(make: Any, message: str) -> None:
    """When they are declared."""
    with pytest.raises(InvalidValue, match=message):
        make()


def test_what_an_aggregation_is_not_is_said_in_probes() -> None:
    """A keyed one needs its key, an unkeyed one has none, an entry is not a value."""
    p = Probe()
    keyed, single = log2_hist(key=U32, name="lat"), log2_hist(name="lat")
    with pytest.raises(
        CompileError, match=r": the log2 histogram lat has a value for each key: write lat\[key\]\.add\(…\)"
    ):
        keyed.attribute(p, "add")
    with pytest.raises(CompileError, match=r"has no keys: write lat\.add\(…\)"):
        single.item(p, 3)
    with pytest.raises(CompileError, match=r"write lat\[key\]\.add\(…\) in one expression"):
        keyed.item(p, 3).local(p)
    with pytest.raises(CompileError, match=r"has no attribute ad \(did you mean add\?\)"):
        keyed.item(p, 3).attribute(p, "ad")
    with pytest.raises(CompileError, match=r"the keys of the log2 histogram lat are u32"):
        keyed.item(p, (3, 4)).attribute(p, "add").call(p, (1,), {})


def test_an_aggregation_that_is_printed_says_how_it_is_read():
    """Its kind, its name, and `snapshot()`; before it has a name, too."""
    assert repr(log2_hist(name="latency")) == "<SingleHistogram latency: snapshot() reads it>"
    assert repr(counter(key=u32)) == "<KeyedCounter (unnamed): snapshot() reads it>"
