"""`range` loops, against Python's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.builder.loops import MAX_BOUNDED, MAX_ITERATIONS, range_loop
from pyebpf.builder.values.comparisons import compare, maximum, minimum
from pyebpf.builder.values.operations import binary
from pyebpf.compiler.evaluator import Pointer, Region
from pyebpf.compiler.ir import Op
from pyebpf.errors import CompileError
from pyebpf.types import S8, S64, U64, IntType
from tests.builder.harness import Everything, Probe

ENDS = st.integers(-9, 9)
STEPS = st.integers(-4, 4).filter(bool)


def summing(p: Probe, start: Any, stop: Any, step: int, leave: Any = None, skip: Any = None) -> None:
    """Return a number that tells the order and the values of the rounds."""
    total = p.b.variable(hint="total")
    p.b.write(total, p.b.const(1))
    with range_loop(p, start, stop, step, [total]) as (loop, index):
        low, high = p.b.bounds(index.value)
        assert low >= -140
        assert high <= 140
        if leave is not None:
            with p.b.if_(compare(p, "==", index, leave)):
                p.b.break_(loop)
        if skip is not None:
            with p.b.if_(compare(p, "==", index, skip)):
                p.b.continue_(loop)
        before = p.b.read(total)
        assert before is not None
        from pyebpf.builder.values.integers import Int

        p.b.write(total, binary(p, "+", binary(p, "*", Int(before, S64), 31), index).value)
    after = p.b.read(total)
    assert after is not None
    p.b.ret(after)


def wanted(start: int, stop: int, step: int, leave: int | None = None, skip: int | None = None) -> int:
    total = 1
    for i in range(start, stop, step):
        if i == leave:
            break
        if i == skip:
            continue
        total = total * 31 + i
    return S64.wrap(total)


@settings(max_examples=150)
@given(ENDS, ENDS, STEPS, ENDS, ENDS)
def test_constant_ranges_are_pythons(start: int, stop: int, step: int, leave: int, skip: int) -> None:
    p = Probe()
    summing(p, start, stop, step, leave, skip)
    assert p.run() == wanted(start, stop, step, leave, skip)


@settings(max_examples=150)
@given(ENDS, STEPS, st.lists(st.tuples(ENDS, ENDS, ENDS), min_size=5, max_size=5), st.booleans())
def test_ranges_that_each_event_ends_are_pythons(
    start: int, step: int, runs: list[tuple[int, int, int]], run_time_start: bool
) -> None:
    p = Probe()
    first: Any = p.number(2, S8) if run_time_start else start
    summing(p, first, p.number(0, S8), step, p.number(1, S8))
    module = p.finish()
    for stop, leave, given_start in runs:
        begin = given_start if run_time_start else start
        assert p.run_module(module, stop, leave, begin) == wanted(begin, stop, step, leave)


class Numbers:
    """bpf_iter_num_*, and how many iterators are open."""

    def __init__(self) -> None:
        self.open = 0
        self.place = Region.unwritten("number", 4)
        self.rest: Any = iter(())

    def new(self, _run: Any, _iterator: Any, start: int, stop: int) -> int:
        self.open += 1
        self.rest = iter(range(start, stop))
        return 0

    def next(self, _run: Any, _iterator: Any) -> Any:
        for number in self.rest:
            self.place.store(0, number.to_bytes(4, "little"))
            return Pointer(self.place, 0)
        return 0

    def destroy(self, _run: Any, _iterator: Any) -> int:
        self.open -= 1
        return 0

    def functions(self) -> dict[str, Any]:
        return {f"bpf_iter_num_{name}": getattr(self, name) for name in ("new", "next", "destroy")}


@settings(max_examples=60)
@given(
    st.integers(-3, 300),
    STEPS,
    st.booleans(),
    st.lists(st.tuples(st.integers(-128, 127), st.integers(-128, 127)), min_size=4, max_size=4),
)
def test_long_ranges_are_iterated_and_closed_on_each_way_out(
    start: int, step: int, constant: bool, runs: list[tuple[int, int]]
) -> None:
    """Their end, break, continue, and return from inside."""
    for stop, leave in runs:
        p = Probe(Everything())
        total = p.b.variable(hint="total")
        p.b.write(total, p.b.const(0))
        end: Any = 10 * stop if constant else binary(p, "*", p.number(0, S8), 10)
        with range_loop(p, start, end, step, [total]) as (loop, index):
            with p.b.if_(compare(p, "==", index, p.number(1, S8))):
                p.ret(-5)
            with p.b.if_(compare(p, "==", index, 300)):
                p.b.break_(loop)
            with p.b.if_(compare(p, "==", binary(p, "%", index, 7), 0)):
                p.b.continue_(loop)
            before = p.b.read(total)
            assert before is not None
            p.b.write(total, p.b.binary(Op.ADD, before, index.value))
        after = p.b.read(total)
        assert after is not None
        p.b.ret(after)
        numbers = Numbers()
        found = p.run(stop, leave, kfuncs=numbers.functions())
        wanted = 0
        for i in range(start, 10 * stop, step):
            if i == leave:
                wanted = -5
                break
            if i == 300:
                break
            wanted += 0 if i % 7 == 0 else i
        assert found == wanted
        assert numbers.open == 0


@pytest.mark.parametrize("type_", [S64, U64], ids=str)
def test_a_minimum_is_a_bound(type_: IntType) -> None:
    p = Probe()
    summing(p, 0, minimum(p, p.number(0, type_), 7), 1)
    module = p.finish()
    assert [p.run_module(module, n) for n in (0, 5, 7, 1000)] == [wanted(0, min(n, 7), 1) for n in (0, 5, 7, 1000)]


def test_a_bounded_start_far_from_zero_is_a_bound() -> None:
    p = Probe()
    begin = maximum(p, minimum(p, p.number(0), 100), 90)
    summing(p, begin, 95, 1)
    module = p.finish()
    assert [p.run_module(module, n) for n in (0, 93, 99)] == [wanted(n, 95, 1) for n in (90, 93, 99)]


def test_a_range_up_to_the_end_of_s64_ends() -> None:
    p = Probe()
    with range_loop(p, (1 << 63) - 9, (1 << 63) - 1, 5) as (loop, index):
        with p.b.if_(compare(p, "==", index, (1 << 63) - 4)):
            p.ret(7)
        p.b.continue_(loop)
    p.ret(0)
    assert p.run() == 7


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (lambda p: (0, p.number(0), 1), r"range\(\) needs a bound that can be proved.*write range\(min\(n, 64\)\)"),
        (lambda p: (0, p.number(0, U64), 1), "needs a bound that can be proved"),
        (lambda p: (p.number(0, U64), 10, 1), "needs a bound that can be proved"),
        (
            lambda _: (0, MAX_BOUNDED + 1, 1),
            rf"of at most {MAX_BOUNDED} iterations \(here up to {MAX_BOUNDED + 1} iterations\)",
        ),
        (lambda p: (0, 10, p.number(0)), r"the step of range\(\) must be known at compile time"),
        (lambda _: (0, 10, 0), r"the step of range\(\) must not be zero"),
    ],
)
def test_ranges_without_an_end_are_refused(bounds: Any, message: str) -> None:
    p = Probe()
    with pytest.raises(CompileError, match=message), range_loop(p, *bounds(p)):
        pass


def test_iterators_have_a_limit_of_their_own() -> None:
    p = Probe(Everything())
    with (
        pytest.raises(
            CompileError,
            match=rf"of at most {MAX_ITERATIONS} iterations \(here up to {MAX_ITERATIONS + 1} iterations\)",
        ),
        range_loop(p, 0, MAX_ITERATIONS + 1, 1),
    ):
        pass
