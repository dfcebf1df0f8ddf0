"""Computation while compiling ends, and takes little memory, whatever is computed and however it comes about."""

from __future__ import annotations

import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.dsl.steps import MAX_STEPS
from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from types import FrameType

OUTSIDE = """
import collections, decimal, fractions, functools, ipaddress, itertools, json, math, operator, re, struct
import textwrap

def forever():
    n = 0
    while True:
        n += 1

def one_line():
    while True: pass

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def doubled(n):
    found = [1]
    for _ in range(n):
        found = found + found
    return len(found)

def doubled_in_place(n):
    found = [1]
    for _ in range(n):
        found += found
    return len(found)

def doubled_by_slice(n):
    found = [1]
    for _ in range(n):
        found[:0] = found
    return len(found)

def doubled_text(n):
    found = "a"
    for _ in range(n):
        found = f"{found}{found}"
    return len(found)

def spread(n):
    found = [1]
    for _ in range(n):
        found = [*found, *found]
    return len(found)

def shift(n):
    return (1 << n) & 1

def shift_in_place(n):
    value = 1
    value <<= n
    return value & 1

class Box:
    def __init__(self, n):
        self.n = n
        self.items = [n]

    def __mul__(self, other):
        return Box(self.n * other)

    @property
    def power(self):
        return 3 ** self.n

    def raised(self):
        self.n **= self.n
        return self.n & 1

    def filled(self):
        self.items[0] *= [0] * self.n
        return 0

def zeros(n):
    return len([0] * n)

def padded(n):
    return len("a".ljust(n))

def formatted(n):
    return len(f"{1:{n}}") + len("%*d" % (n, 1))

def built(n):
    return len(bytes(n))

def listed(values):
    return len(list(values))

def catching():
    while True:
        try:
            forever()
        except BaseException:
            pass

def finally_forever():
    try:
        while True: pass
    finally:
        while True: pass

def finally_more():
    try:
        forever()
    finally:
        for i in itertools.count():
            pass

def finally_all():
    try:
        forever()
    finally:
        found = [i for i in itertools.count()]

class Index:
    def __index__(self): return 10**10

def tree(depth):
    return [tree(depth - 1), tree(depth - 1)] if depth else 1

def quietly():
    try:
        return zeros(10**9)
    except BaseException:
        return 5

def many_texts():
    found = []
    for i in range(100_000):
        found.append("x" * 900_000)
    return len(found)

def many(n):
    return [i for i in range(n)]

def counting():
    for i in itertools.count():
        yield i

def crc(polynomial):
    found = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        found.append(value)
    return tuple(found)

def fnv(text):
    value = 0xCBF29CE484222325
    for each in text.encode():
        value = ((value ^ each) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value >> 40

def adder(n):
    return lambda k: k + n * 2

class Counter:
    def __init__(self):
        self.tally = {}

    def add(self, name, *, times=1):
        self.tally[name] = self.tally.get(name, 0) + times
        self.tally[name] <<= 2
        return self

ADDED = [1, 2, 3]

class Lazy:
    def __init__(self, n):
        self.n = n
        self.cells = range(n)

    @property
    def total(self): return sum(range(self.n))

    @property
    def held(self): return sum(self.cells)

    @property
    def power(self): return (self.n ** 1000000000) & 1

    @property
    def zeros(self): return len([0] * 10000000000)

    @property
    def factorial(self): return math.factorial(self.n) & 1

    @property
    def matches(self): return re.match("(a+)+$", "a" * 40 + "b") is None

    @property
    def endless(self): return max(itertools.count())

    @property
    def padded(self): return len("a".ljust(self.n))

    @property
    def doubled(self):
        found = [1]
        for i in range(self.n):
            found = found + found
        return len(found)

    @property
    def caught(self):
        while True:
            try:
                while True: pass
            except BaseException: pass

    @property
    def spun(self):
        n = 0
        while True:
            n += 1

    @property
    def small(self):
        return sum(x for x in range(self.n)) + sum([3, 1]) + sum(range(4)) + len([x * 2 for x in range(5)])

    def __lt__(self, other): return math.factorial(self.n) < 3

    def __len__(self): return sum(range(self.n))

class Rounds:
    def __getitem__(self, i): return 1
"""

STEPS = f"this takes more than {MAX_STEPS:,} steps, calls and iterations, which are too many to run at compile time"
ROUNDS = "more than 1,000,000 iterations of"
KEPT = "elements are too many to keep at compile time, at most 1,000,000"

ALONE = "which Python itself calls here, is not bounded: compute this above the probe"

#: Expressions that once took for ever, or the machine's memory.
ENDLESS = [
    ("sum(1 for _ in itertools.count())", STEPS),
    ("sum(itertools.repeat(1))", ROUNDS),
    ("10**12 in map(int, range(10**11))", ROUNDS),
    ("len(list(itertools.product(range(100), repeat=8)))", ROUNDS),
    ("len(list(itertools.permutations(range(12))))", ROUNDS),
    ("len(list(filter(None, itertools.repeat(0))))", ROUNDS),
    ("len([*itertools.cycle((1, 2))])", ROUNDS),
    ("len(collections.deque(itertools.count(), 3))", ROUNDS),
    ("max(itertools.accumulate(itertools.repeat(1)))", ROUNDS),
    ("0.5 in range(10**11)", "iterations are too many"),
    ("len(list(ipaddress.ip_network('::/0').hosts()))", STEPS),
    ("sum(counting())", STEPS),
    ("listed(itertools.count())", STEPS),
    ("forever()", STEPS),
    ("one_line()", STEPS),
    ("catching()", STEPS),
    ("fib(40)", STEPS),
    ("len(tree(40))", STEPS),
    ("finally_forever()", STEPS),
    ("finally_more()", STEPS),
    ("finally_all()", STEPS),
    ("len('a' * Index())", "Index.__index__() gives an unbounded number here: write int(…)"),
    ("len([0] * Index())", "Index.__index__() gives an unbounded number here: write int(…)"),
    ("(fractions.Fraction(1, 3) ** 10**8).numerator", "this number would have some 300,000,000 bits"),
    ("int(decimal.Decimal('1e99999999'))", "this number would have some"),
    ("re.match('(a+)+$', 'a' * 40 + 'b') is None", "cannot prove that the regular expression '(a+)+$' ends soon"),
    ("re.compile('(a|a)*b').match('a' * 40) is None", "cannot prove that the regular expression"),
    ("len(struct.pack('2000000000x'))", f"2,000,000,000 {KEPT}"),
    ("len('%2000000000d' % 1)", f"2,000,000,000 {KEPT}"),
    ("len('%*d' % (2 * 10**9, 1))", f"2,000,000,000 {KEPT}"),
    ("len(f'{1:2000000000}')", f"2,000,000,000 {KEPT}"),
    ("len('{:2000000000}'.format(1))", f"2,000,000,000 {KEPT}"),
    ("len('{:{}}'.format(1, 2 * 10**9))", f"2,000,000,000 {KEPT}"),
    ("len(format(1, '2000000000'))", f"2,000,000,000 {KEPT}"),
    ("len(''.join(['ab' * 1000] * 10**6))", f"2,000,000,000 {KEPT}"),
    ("len(('a' * 10**6).replace('a', 'b' * 1000))", f"1,001,000,000 {KEPT}"),
    ("len((5).to_bytes(2 * 10**9, 'big'))", f"2,000,000,000 {KEPT}"),
    ("len(functools.reduce(lambda a, b: a + a, range(100), 'x' * 100))", KEPT),
    ("functools.reduce(lambda a, b: a * a, range(100), 3)", "this number would have some"),
    ("math.comb(10**6, 5 * 10**5) & 1", "this number would have some"),
    ("math.factorial(10**7) & 1", "this number would have some"),
    ("math.prod(range(1, 10**6)) & 1", "this number would have some"),
    ("len(json.dumps([1], indent=10**9))", "cannot prove that dumps() ends soon"),
    ("len(textwrap.indent('a\\n' * 4000, 'b' * 5000))", "cannot prove that indent() ends soon"),
    ("shift(2**35)", "this number would have some 34,359,738,369 bits"),
    ("shift_in_place(2**35)", "this number would have some 34,359,738,369 bits"),
    ("zeros(3 * 10**8)", f"300,000,000 {KEPT}"),
    ("quietly()", f"1,000,000,000 {KEPT}"),
    ("padded(2 * 10**9)", f"2,000,000,000 {KEPT}"),
    ("formatted(2 * 10**9)", f"2,000,000,000 {KEPT}"),
    ("built(2 * 10**9)", f"2,000,000,000 {KEPT}"),
    ("doubled(40)", KEPT),
    ("doubled_in_place(40)", KEPT),
    ("doubled_by_slice(40)", KEPT),
    ("doubled_text(40)", KEPT),
    ("spread(40)", "1,048,576 iterations are too many"),
    ("many_texts()", STEPS),
    ("Box(10**6).power & 1", "the operands of `**` in Box.power(), which Python itself calls here, are not bounded"),
    ("Box(10**6).raised()", "this number would have some"),
    ("Box(10**9).filled()", f"1,000,000,000 {KEPT}"),
    ("(Box('ab') * 10**9).n == 'a'", f"2,000,000,000 {KEPT}"),
    ("sorted([3, 1], key=lambda n: [0] * 10**9)[0]", f"1,000,000,000 {KEPT}"),
    ("len([[0] * 10**9 for n in (1, 2)])", f"1,000,000,000 {KEPT}"),
    ("10**10**9", "this number would have some 3,000,000,000 bits"),
    ("len('x' * 10**12)", f"1,000,000,000,000 {KEPT}"),
    ("sum(range(10**12))", "iterations are too many"),
    ("math.lcm(*range(1, 200), 2**8000 - 1) & 1", "this number would have some"),
    ("int('9' * 10**7)", f"10,000,000 {KEPT}"),
    ("int(decimal.Decimal(2).sqrt(decimal.Context(prec=10**9)))", "this number would have some"),
    ("re.sub('(a|aa)+$', '', 'a' * 60 + 'b') == 'a'", "cannot prove that the regular expression"),
    ("len({**dict.fromkeys(range(10**9))})", "1,000,000,000 iterations are too many"),
    ("range(10**12).count(0.5)", "iterations are too many"),
    ("max([10**7, 3], key=math.factorial)", "this number would have some"),
    ("sorted([10**9, 3], key=(3).__pow__)[0]", "this number would have some"),
    ("(3).__pow__(10**9) & 1", "this number would have some"),
    ("int.__pow__(3, 10**9) & 1", "this number would have some"),
    ("len('x'.__mul__(10**12))", f"1,000,000,000,000 {KEPT}"),
    ("len(list(map(operator.pow, [3], [10**9])))", "this number would have some"),
    ("len(list(itertools.starmap(pow, [(3, 10**9)])))", "this number would have some"),
    ("functools.reduce(pow, [3, 10**9]) & 1", "this number would have some"),
    ("list(itertools.accumulate([3, 10**9], pow))[1] & 1", "this number would have some"),
    ("operator.methodcaller('ljust', 10**10)('x') == 'a'", f"10,000,000,000 {KEPT}"),
    ("Lazy(10**12).total", f"range() in Lazy.total(), {ALONE}"),
    ("Lazy(10**12).held", f"a range in Lazy.held(), {ALONE}"),
    ("Lazy(3).power", "the operands of `**` in Lazy.power(), which Python itself calls here, are not bounded"),
    ("Lazy(3).zeros", "the operands of `*` in Lazy.zeros(), which Python itself calls here, are not bounded"),
    ("Lazy(10**5).factorial", f"factorial() in Lazy.factorial(), {ALONE}"),
    ("Lazy(3).matches", f"match() in Lazy.matches(), {ALONE}"),
    ("Lazy(3).endless", f"count() in Lazy.endless(), {ALONE}"),
    ("Lazy(10**5).padded", f"ljust() in Lazy.padded(), {ALONE}"),
    ("Lazy(40).doubled", f"1,048,576 {KEPT}"),
    ("Lazy(3).caught", "Lazy.caught(), which Python itself calls here, has a loop and catches every exception"),
    ("Lazy(3).spun", STEPS),
    ("sorted([Lazy(10**5), Lazy(10**5)])[0].n", f"factorial() in Lazy.__lt__(), {ALONE}"),
    ("len(Lazy(10**5))", f"range() in Lazy.__len__(), {ALONE}"),
    ("sum(Rounds())", STEPS),
    ("3 in Rounds()", STEPS),
]


@pytest.mark.parametrize(("source", "expected"), ENDLESS, ids=[source for source, _ in ENDLESS])
def test_nothing_takes_for_ever(source: str, expected: str) -> None:
    """It is refused at its place, soon and before it takes memory."""
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CompileError) as caught:
        build(f"results[0] = {source}", "count", OUTSIDE)
    words, marked = message(caught.value)
    assert expected in words
    assert marked
    assert time.process_time() - started < PATIENCE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


def test_the_same_is_refused_every_time() -> None:
    """Steps are counted: so many compile, and one more round does not, whatever the machine does beside."""
    assert results("results[0] = len(many(700_000)) & 1023", outside=OUTSIDE) == [700_000 & 1023]
    with pytest.raises(CompileError, match="are too many"):
        build("results[0] = len(many(3_000_000))", "", OUTSIDE)


#: Expressions of helpers, and what they are.
COMPUTED: list[tuple[str, int]] = [
    ("crc(0xEDB88320)[1] & 0xFFFF", 0x77073096 & 0xFFFF),
    ("fnv('abc')", 0xE71FA2190541574B >> 40),
    ("adder(4)(3)", 11),
    ("adder(4)(count)", 13),
    ("Counter().add('a').add('a', times=3).tally['a']", 28),
    ("(Box(3) * 4).n", 12),
    ("len(json.loads('[1, 2, [3, {}]]'))", 3),
    ("sum(x for x in range(1000)) & 255", 44),
    ("len(f'{3:>{8}}{5!r:4}')", 12),
    ("3 in {1: 2, 3: 4} and 3 not in (1, 2)", 1),
    ("len(list(itertools.islice(itertools.count(), 20)))", 20),
    ("sum(itertools.takewhile(lambda n: n < 5, itertools.count()))", 10),
    ("functools.reduce(operator.mul, [1, 2, 3, 4])", 24),
    ("functools.partial(shift, 0)()", 1),
    ("int(re.match(r'(\\d+)-(\\d+)-(\\w+)', '2024-31-abc').group(2))", 31),
    ("(fractions.Fraction(1, 3) ** 3).denominator", 27),
    ("math.comb(10, 3) + math.factorial(5)", 240),
    ("max(map(lambda n: n * 2, ADDED))", 6),
    ("Lazy(5).small", 25),
    ("sorted([3, 1, 2], key=(2).__pow__)[0]", 1),
    ("max([1, 4], key=math.factorial)", 4),
    ("functools.reduce(pow, [3, 2, 2])", 81),
    ("len(dict.fromkeys(range(5)))", 5),
    ("struct.calcsize('<I4xH')", 10),
]


@pytest.mark.parametrize(("source", "value"), COMPUTED, ids=[source for source, _ in COMPUTED])
def test_what_is_small_is_computed_as_python_does(source: str, value: int) -> None:
    """Helpers that Python runs mean what they mean to Python."""
    assert results(f"results[0] = {source}", outside=OUTSIDE)[0] == value


def test_a_debugger_goes_on() -> None:
    """The hook of a debugger that is running is put back."""

    def tracer(frame: FrameType, event: str, argument: Any) -> None:
        del frame, event, argument

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        build("results[0] = fnv('abc')", "", OUTSIDE)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
