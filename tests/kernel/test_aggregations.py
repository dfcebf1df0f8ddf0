"""Aggregations in the kernel: the verifier takes them, and counts from every processor are exact."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

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
from pyebpf.builder.drop_counters import DROPS_MAP, FULL
from pyebpf.builder.values.strings import StringSource
from pyebpf.compiler import compile_module
from pyebpf.features import Features
from pyebpf.kernel import bpf
from pyebpf.kernel.cpus import online_cpus
from pyebpf.objects import Map, Program
from pyebpf.specs import ProgramSpec
from pyebpf.types import S32, S64, U8, U32, U64, IntType, Struct, char, field, u32
from pyebpf.uapi.bpf import ProgramType
from tests.builder.harness import Nothing, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.builder.drop_counters import DropReason

EVERY_TARGET = pytest.mark.parametrize("target", [Features(), Nothing()], ids=["host", "oldest"])
#: BPF_F_TEST_RUN_ON_CPU.
ON_CPU = 1


class Where(Struct):
    cpu: u32
    disk: str = field(char[12])


MAKERS: dict[str, Callable[..., Any]] = {
    "log2": log2_hist,
    "log2 with sums": lambda **kw: log2_hist(sums=True, **kw),
    "linear with sums": lambda **kw: linear_hist(-20, 1000, 50, sums=True, **kw),
    "log_linear with sums": lambda **kw: log_linear_hist(2, sums=True, **kw),
    "linear": lambda **kw: linear_hist(-20, 1000, 50, **kw),
    "linear powers": lambda **kw: linear_hist(0, 1024, 64, **kw),
    "linear widest": lambda **kw: linear_hist(-2000, 2094, **kw),
    "log_linear": lambda **kw: log_linear_hist(2, **kw),
    "log_linear 5": lambda **kw: log_linear_hist(5, **kw),
    "counter": counter,
    "total": total,
    "minimum": minimum,
    "maximum": maximum,
    "stats": stats,
}
HISTOGRAMS = [name for name in MAKERS if name.startswith(("log", "linear"))]


class Adding:
    """`aggregation.add(value)` in the kernel."""

    def __init__(self, program: Program, maps: dict[str, Map], losses: tuple[DropReason, ...]) -> None:
        self.program = program
        self.maps = maps
        self.losses = losses

    def __call__(self, number: int, word: int = 0, cpu: int = 0) -> None:
        """Add a number, under the key made of `word`, on a processor."""
        context = b"".join((each % (1 << 64)).to_bytes(8, "little") for each in (number, word))
        bpf.prog_test_run(self.program.fileno(), context=context, in_place=True, flags=ON_CPU, cpu=cpu)


@contextmanager
def adding(
    aggregation: Any, target: Any, type_: IntType, key: Callable[[Probe], Any] | None = None
) -> Iterator[Adding]:
    """Load a program that adds word 0, as a number of that type."""
    aggregation.name = "values"
    p = Probe()
    value = p.number(0, type_)
    place = aggregation if key is None else aggregation.item(p, key(p))
    place.attribute(p, "add").call(p, (value,), {})
    p.ret(0)
    code = compile_module(p.finish(), target, check=True)
    lost = p.drop_counters.spec()
    specs = {**p.maps, **{spec.name: spec for spec in aggregation.specs()}, **({lost.name: lost} if lost else {})}
    maps = {name: Map(spec) for name, spec in specs.items()}
    aggregation.bind(maps["values"])
    try:
        with Program(ProgramSpec("test", ProgramType.RAW_TRACEPOINT, code), maps) as program:
            yield Adding(program, maps, p.drop_counters.reasons)
    finally:
        aggregation.bind(None)
        for made in maps.values():
            made.close()


def values_of(type_: IntType, count: int, seed: int) -> list[int]:
    """Small ones, edges, and anything, as the type holds them."""
    chance = random.Random(seed)
    edges = [0, 1, -1, 19, 20, -20, 999, 1000, 1023, 1024, (1 << 63) - 2, -(1 << 63) + 1, 1 << 62, 1 << 32]
    return [
        type_.wrap(chance.choice((chance.choice(edges), chance.randrange(-2000, 2000), chance.getrandbits(64))))
        for _ in range(count)
    ]


def check_histogram(found: Any, values: list[int]) -> None:
    """Each bucket counts the values in its range."""
    for bucket in found.buckets:
        inside = [
            v for v in values if (bucket.low is None or bucket.low <= v) and (bucket.high is None or v <= bucket.high)
        ]
        assert bucket.count == len(inside), bucket
    assert found.total == len(values)


def check(name: str, found: Any, values: list[int], type_: IntType) -> None:
    """What Python computes from the values."""
    s64 = [min(v, S64.maximum) for v in values]
    summed = sum(values)
    match name:
        case "counter" | "total":
            assert (found - summed) % (1 << 64) == 0
        case "minimum":
            assert found == min(s64, default=None)
        case "maximum":
            assert found == max(s64, default=None)
        case "stats":
            assert (found.count, found.minimum, found.maximum) == (
                *(len(values), min(s64, default=None), max(s64, default=None)),
            )
            assert (found.total - summed) % (1 << 64) == 0
        case _:
            check_histogram(found, values)
            if "sums" in name:
                assert (found.sum - summed) % (1 << 64) == 0
            else:
                assert found.sum is None


@EVERY_TARGET
@pytest.mark.parametrize("type_", [S64, U64, S32, U8], ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_one_value_is_exact_over_two_processors(name: str, type_: IntType, target: Any) -> None:
    """61 values, each on a processor in turn."""
    aggregation = MAKERS[name]()
    values, cpus = values_of(type_, 61, 17), online_cpus()[:2]
    if name in ("minimum", "maximum"):
        # The word of the worst number is the one of no number.
        values = [v for v in values if v not in (S64.minimum, S64.maximum)]
    with adding(aggregation, target, type_) as run:
        for index, value in enumerate(values):
            run(value, cpu=cpus[index % len(cpus)])
        check(name, aggregation.snapshot(), values, type_)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_cleared_aggregation_begins_anew(name: str, keyed: bool) -> None:
    """What is added then is all that there is, and all that the interval has, though it is more than before."""
    aggregation = MAKERS[name](key=U32, size=7) if keyed else MAKERS[name]()
    key, cpus = (lambda p: p.number(1, U32)) if keyed else None, online_cpus()[:2]
    with adding(aggregation, Features(), S64, key) as run:
        for values in ([5, 6, 7], [1, 2, 3, 4, 1000], [8]):
            for index, value in enumerate(values):
                run(value, 3, cpus[index % len(cpus)])
            found = aggregation.snapshot()
            check(name, found[3] if keyed else found, values, S64)
            if hasattr(aggregation, "interval"):
                gained = aggregation.interval()
                whole = Stats(len(values), sum(values)) if name == "stats" else found[3] if keyed else found
                assert (gained[3] if keyed else gained) == whole
            aggregation.clear()
        if keyed:
            assert aggregation.snapshot() == {}
        else:
            check(name, aggregation.snapshot(), [], S64)


@EVERY_TARGET
@pytest.mark.parametrize("name", MAKERS)
def test_keyed_values_are_exact_over_two_processors(name: str, target: Any) -> None:
    """97 values under 7 keys, the same key on both processors; then an interval of 13 more."""
    aggregation = MAKERS[name](key=U32, size=7)
    values, cpus = values_of(S64, 97, 29), online_cpus()[:2]
    with adding(aggregation, target, S64, lambda p: p.number(1, U32)) as run:
        for index, value in enumerate(values):
            run(value, index % 7, cpus[index // 7 % len(cpus)])
        found = aggregation.snapshot()
        assert sorted(found) == list(range(7))
        for key in range(7):
            check(name, found[key], values[key::7], S64)
        if not hasattr(aggregation, "interval"):
            return
        aggregation.interval()
        later = values_of(S32, 13, 31)
        for value in later:
            run(value, 3, cpus[-1])
        gained = aggregation.interval()
        assert list(gained) == [3]
        if name == "stats":
            assert gained == {3: Stats(13, sum(later))}
        else:
            check(name, gained[3], later, S64)
        assert aggregation.interval() == {}


def text() -> StringSource:
    """A name that is there only once it is read."""

    def read_into(p: Any, address: Any, size: int) -> None:
        for index, byte in enumerate(b"vda".ljust(size, b"\0")):
            p.b.store(address, index, p.b.const(byte), 1)

    return StringSource("text()", read_into, 12)


@EVERY_TARGET
@pytest.mark.parametrize("name", ["log2", "counter"])
def test_keys_may_be_strings_and_structs(name: str, target: Any) -> None:
    """`hist[comm()]`, `hist[Where(cpu, disk)]`: read into the key, padding and all."""
    from pyebpf.builder.values.records import StructConstructor

    keyed = MAKERS[name](key=char[12])
    with adding(keyed, target, U64, lambda _p: text()) as run:
        for _ in range(5):
            run(3)
        assert list(keyed) == ["vda"]
    records = MAKERS[name](key=Where)
    make = StructConstructor(Where)
    with adding(records, target, U64, lambda p: make.call(p, (p.number(1, U32), text()), {})) as run:
        for word in (5, 6, 5):
            run(1, word)
        assert sorted(records, key=lambda w: w.cpu) == [Where(5, "vda"), Where(6, "vda")]
        assert records.snapshot() == {key: records[key] for key in records}


@EVERY_TARGET
@pytest.mark.parametrize("name", MAKERS)
def test_keys_without_room_are_counted_as_lost(name: str, target: Any) -> None:
    """Room for 5 of 23 keys, twice: 36 losses."""
    keyed = MAKERS[name](key=U32, size=5)
    with adding(keyed, target, S64, lambda p: p.number(1, U32)) as run:
        for word in (*range(23), *range(23)):
            run(9, word)
        assert sorted(keyed) == [0, 1, 2, 3, 4]
        [index] = [i for i, loss in enumerate(run.losses) if (loss.reason, loss.map) == (FULL, "values")]
        counts = run.maps[DROPS_MAP][0]
        assert counts[index] == 36
        assert sum(counts) == 36


def test_the_template_stays_zero() -> None:
    """Neither programs nor user space write to it: it is frozen and read-only."""
    from pyebpf.errors import KernelError

    keyed = log2_hist(key=U32)
    with adding(keyed, Nothing(), S64, lambda p: p.number(1, U32)) as run:
        for word in range(5):
            run(word, word)
        template = run.maps[keyed.template.name]
        assert template[0] == [0] * 66
        with pytest.raises(KernelError, match="frozen"):
            template[0] = [1] * 66
