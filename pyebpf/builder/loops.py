"""Loops over `range(…)`, whose bound can be proved, and those that the kernel ends at a limit of its own.

A *bounded loop* is one that the verifier walks iteration by iteration (since Linux 5.3). It must see the end at a
constant, whatever it has forgotten of the numbers by then: so a loop whose ends are known only at run time also counts
its iterations, up to the most that there can be. Many of them cost verification time, and states run out; above
`MANY_ITERATIONS` an *open-coded iterator* (since Linux commit 6018e1f407cc "bpf: implement numbers iterator" (in v6.4))
is taken where the kernel has one: the verifier walks its body until nothing new is learnt, each iteration costs a call,
and a program must be GPL. So it is where the body has a loop that the verifier does not see end: there it forgets the
numbers of the loops around, and would see none of these end. bpf_loop would need the body as a function of its own and
every variable in memory, which only loops over maps pay for (`pyebpf.maps.for_each`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Always, Compare
from pyebpf.builder.ssa.function import Join, Loop
from pyebpf.builder.values.integers import Int, choose, constant, relation
from pyebpf.builder.values.operations import binary, rvalue, to_int
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.dataclass import dataclass
from pyebpf.specs import MapSpec
from pyebpf.types import S64, U32, U64
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.compiler import ir
    from pyebpf.target import Target
    from pyebpf.types import IntType

#: The most iterations of a bounded loop. Verifiers keep a state for each iteration that may be left early, at most
#: 8192.
MAX_BOUNDED = 4096
#: The most iterations of an iterator (BPF_MAX_LOOPS).
MAX_ITERATIONS = 1 << 23
#: From here on an iterator is verified faster.
MANY_ITERATIONS = 256

#: The drop reason of a loop iteration that was cut off.
CUT_OFF = "loop cut off by the kernel's limit"

#: One u64 that nothing ever writes.
ZERO_MAP = ".zero"

_ITERATOR_SIZE = 8
#: The feature with which loops may have more iterations, which verifiers do not follow one by one.
ITERATORS = "kfunc:bpf_iter_num_new"


@dataclass(frozen=True)
class _Range:
    """A range that has been looked at: its ends, its step, and the greatest possible number of iterations.

    `first` and `last` are the ends as numbers; `start` and `stop` as written.
    """

    start: object
    stop: object
    step: int
    first: Int
    last: Int
    max_iterations: int

    @property
    def type(self) -> IntType:
        """The type of the numbers."""
        return U64 if self.first.type == U64 else S64

    @property
    def fixed(self) -> bool:
        """Whether the numbers are known at compile time."""
        return isinstance(self.start, int) and isinstance(self.stop, int)


def most_iterations(target: Target) -> int:
    """The most iterations that a loop over a range may have."""
    return MAX_ITERATIONS if target.has(ITERATORS) else MAX_BOUNDED


@contextmanager
def range_loop(
    p: ProgramBuilder,
    start: object,
    stop: object,
    step: object,
    carried: Iterable[Variable] | None = None,
    *,
    forgets: bool = False,
) -> Iterator[tuple[Loop, Int]]:
    """Build the body once for each number of `range(start, stop, step)`.

    Gives the loop, for `break_` and `continue_`, and the number. `carried` are the variables that the body assigns;
    their bounds need not be known in the next iteration where it `forgets`, which is easier for the verifier: inside a
    loop that need not be seen to end it then follows none of the iterations.
    """
    start, stop, step = (rvalue(p, each) for each in (start, stop, step))
    if not isinstance(step, int):
        p.fail("the step of range() must be known at compile time")
    if step == 0:
        p.fail("the step of range() must not be zero")
    first, last = to_int(p, start), to_int(p, stop)
    iterations = _max_iterations(p, first, last, step)
    loop_number, p.range_loops = p.range_loops, p.range_loops + 1
    is_followed = iterations is not None and iterations <= MANY_ITERATIONS and loop_number not in p.known.around
    iterate = (not is_followed or (forgets and p.limited_loops > 0)) and p.target.has(ITERATORS)
    limit = MAX_ITERATIONS if iterate else MAX_BOUNDED
    if iterations is None or iterations > limit:
        found = "" if iterations is None else f" (here up to {iterations} iterations)"
        p.fail(
            f"range() needs a bound that can be proved, of at most {limit} iterations{found}: "
            "write range(min(n, 64)), or test n first"
        )
    numbers = _Range(start, stop, step, first, last, iterations)
    built = _iterated(p, numbers, carried, forgets=forgets) if iterate else _bounded(p, numbers, carried)
    with p.within(loop_number), built as (loop, index):
        (low, high), (least, most) = p.b.bounds(first.value), p.b.bounds(last.value)
        if step > 0:
            p.b.assume_bounds(index, low, max(most - 1, low))
        else:
            p.b.assume_bounds(index, min(least + 1, high), high)
        yield loop, Int(index, numbers.type)


@contextmanager
def counted_loop(p: ProgramBuilder, max_iterations: int, carried: Iterable[Variable]) -> Iterator[Loop]:
    """Build the body of a loop that ends within `max_iterations`. `carried` are the variables that it assigns.

    Linux 6.1's verifier tells two iterations apart by their registers alone, and takes a loop whose own counter lives
    on the stack for an endless one. Iterations counted up to a constant are told apart wherever the count is; verifiers
    that know may_goto, which is younger than what mended this, need no such count.
    """
    b = p.b
    if p.target.has("isa:may_goto"):
        with b.loop(carried) as loop:
            yield loop
        return
    counter = b.variable(hint="iteration")
    b.write(counter, b.const(0))
    with b.loop([*carried, counter]) as loop:
        iterations = b.read(counter)
        assert iterations is not None
        inside, again, never = Join("body"), Join("next iteration"), Join("never")
        b.branch(Compare(Relation.ULT, iterations, b.const(max_iterations)), inside, never)
        b.start(never)
        p.leave_never()
        b.start(inside)
        yield Loop(loop.exit, again)
        b.jump(again)
        b.start(again)
        if b.reachable:
            b.write(counter, b.binary(Op.ADD, iterations, b.const(1)))
    b.forget(counter)


@contextmanager
def limited_loop(p: ProgramBuilder, carried: Iterable[Variable] | None = None) -> Iterator[Loop]:
    """Build the body of a loop that need not be seen to end; the target must have "isa:may_goto".

    The kernel lets the loops of one call run 2^23 iterations (BPF_MAX_LOOPS), or, since Linux commit e723608bf4ea
    ("bpf: Add verifier support for timed may_goto") (in v6.15) on some machines, a quarter of a second; that is then
    counted as dropped, and the loop left. `carried` are the variables that the body assigns.
    """
    b = p.b
    p.found.around |= {*p.open_loops}
    with _forgetful_loop(p, carried) as loop:
        spent, inside = Join("cut off"), Join("body")
        b.nondeterministic_branch(spent, inside)
        b.start(spent)
        count_drop(p, CUT_OFF)
        b.jump(loop.exit)
        b.start(inside)
        p.limited_loops += 1
        yield loop
        p.limited_loops -= 1


@contextmanager
def _forgetful_loop(p: ProgramBuilder, carried: Iterable[Variable] | None) -> Iterator[Loop]:
    """Build a loop whose iterations begin with numbers that the verifier knows nothing of."""
    b = p.b
    carried = list(b.environment.values if carried is None else carried)
    _forget(p, carried)
    with b.loop(carried) as loop:
        began, again = [b.environment.values.get(each) for each in carried], Join("next iteration")
        yield Loop(loop.exit, again)
        b.jump(again)
        b.start(again)
        if b.reachable:
            values = b.environment.values
            _forget(p, [each for each, first in zip(carried, began, strict=True) if values.get(each) is not first])


def _forget(p: ProgramBuilder, carried: Iterable[Variable]) -> None:
    """Keep from the verifier what numbers an iteration begins with, by adding a zero that it can't see.

    It would follow a known number one iteration after the other, a million instructions far, where a test decides by
    it; a number that it knows nothing of is the same in the second iteration. Tests of the body make numbers known, too
    (`x == 5`), and two sums with one zero are one number to it: each has a zero of its own.
    """
    b = p.b
    for variable in carried:
        value = b.environment.values.get(variable)
        if value is not None and value.type is ValueType.SCALAR:
            b.write(variable, b.binary(Op.ADD, value, opaque_zero(p)))


def opaque_zero(p: ProgramBuilder) -> ir.Value:
    """A zero that the verifier takes for any number."""
    p.maps[ZERO_MAP] = MapSpec(ZERO_MAP, MapType.ARRAY, U32, U64, 1)
    return p.b.load(p.b.emit(Op.MAP_VALUE, symbol=ZERO_MAP), 0, 8)


@contextmanager
def _bounded(p: ProgramBuilder, numbers: _Range, carried: Iterable[Variable] | None) -> Iterator[tuple[Loop, ir.Value]]:
    b, start, step, max_iterations = p.b, numbers.start, numbers.step, numbers.max_iterations
    # From a constant the number itself is counted, unless it would leave s64 on the way out; else the iterations are.
    direct = isinstance(start, int) and S64.minimum <= start + max_iterations * step <= S64.maximum
    counter = b.variable(hint="iteration")
    b.write(counter, numbers.first.value if direct else b.const(0))
    with b.loop(None if carried is None else [*carried, counter]) as loop:
        iterations = b.read(counter)
        assert iterations is not None
        inside = Join("body")
        if direct and isinstance(start, int):
            index = iterations
            limit = b.const(int(start) + max_iterations * step)
            more: Test = Compare(Relation.SLT if step > 0 else Relation.SGT, iterations, limit)
        else:
            more = Compare(Relation.ULT, iterations, b.const(max_iterations))
            index = _number(p, numbers, iterations)
        b.branch(more if max_iterations else Always(holds=False), inside, loop.exit)
        b.start(inside)
        if not numbers.fixed:
            # In range by the constant; the event's own end may come earlier.
            running = Join("body")
            low, high = b.bounds(numbers.first.value)
            span = max(max_iterations - 1, 0) * step
            b.assume_bounds(index, min(low, low + span), max(high, high + span))
            b.branch(relation(p, "<" if step > 0 else ">", Int(index, numbers.type), numbers.last), running, loop.exit)
            b.start(running)
        again = Join("next iteration")
        yield Loop(loop.exit, again), index
        b.jump(again)
        b.start(again)
        if b.reachable:
            b.write(counter, b.binary(Op.ADD, iterations, b.const(step if direct else 1)))
    b.forget(counter)


@contextmanager
def _iterated(
    p: ProgramBuilder, numbers: _Range, carried: Iterable[Variable] | None, *, forgets: bool
) -> Iterator[tuple[Loop, ir.Value]]:
    b = p.b
    iterations = b.const(numbers.max_iterations) if numbers.fixed else _count(p, numbers)
    iterator = b.slot(_ITERATOR_SIZE, name="iterator")
    _kfunc(p, "new", b.slot_address(iterator), b.const(0), iterations)
    loops = _forgetful_loop(p, carried) if forgets else b.loop(carried)
    with b.region(lambda: _kfunc(p, "destroy", b.slot_address(iterator))), loops as loop:
        place = _kfunc(p, "next", b.slot_address(iterator), result=ValueType.POINTER)
        inside = Join("body")
        b.branch(Compare(Relation.NE, place, b.const(0), null_check=True), inside, loop.exit)
        b.start(inside)
        found = b.load(place, 0, 4)
        b.assume_bounds(found, 0, numbers.max_iterations - 1)
        yield loop, _number(p, numbers, found)


def _kfunc(p: ProgramBuilder, name: str, *arguments: ir.Value, result: ValueType = ValueType.SCALAR) -> ir.Value:
    name = f"bpf_iter_num_{name}"
    return p.b.emit(Op.CALL_KFUNC, *arguments, result=result, imm=p.target.function(name).btf_id, symbol=name)


def _number(p: ProgramBuilder, numbers: _Range, iterations: ir.Value) -> ir.Value:
    """The number of an iteration, of iterations counted from 0."""
    scaled = iterations if numbers.step == 1 else p.b.binary(Op.MUL, iterations, p.b.const(numbers.step))
    begins_at_zero = isinstance(numbers.start, int) and numbers.start == 0
    return scaled if begins_at_zero else p.b.binary(Op.ADD, numbers.first.value, scaled)


def _count(p: ProgramBuilder, numbers: _Range) -> ir.Value:
    """How many iterations there are, computed: never below 0."""
    # Both ends are known to lie in s64, or there would be no bound.
    first, last = Int(numbers.first.value, S64), Int(numbers.last.value, S64)
    distance = binary(p, "-", last, first) if numbers.step > 0 else binary(p, "-", first, last)
    size = abs(numbers.step)
    distance = choose(p, ">=", to_int(p, distance), constant(p, 0))
    count = distance if size == 1 else binary(p, "//", binary(p, "+", distance, size - 1), size)
    return to_int(p, count).value


def _max_iterations(p: ProgramBuilder, first: Int, last: Int, step: int) -> int | None:
    """The most iterations that there can be; None if nothing bounds them."""
    (low, high), (least, most) = p.b.bounds(first.value), p.b.bounds(last.value)
    if any(n.type == U64 and p.b.bounds(n.value)[0] < 0 for n in (first, last)):
        return None
    distance = most - low if step > 0 else high - least
    iterations = max(0, -(-distance // abs(step)))
    return iterations if iterations < 1 << 32 else None
