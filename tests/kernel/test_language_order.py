"""Reads and writes happen in the order of the source, whatever names lead to one place, as in Python."""

from __future__ import annotations

import pytest

from pyebpf import BPF, Struct, be16, be32, be64, field, s8, s16, s32, s64, u8, u16
from tests.kernel.test_language_records import outer
from tests.language.harness import Host, Oldest
from tests.support.needs import needs


class Narrow(Struct):
    """Fields of every width."""

    a: s8
    b: s16
    c: s32
    d: u8
    e: be16
    f: be32
    g: be64
    h: u16
    i: s64
    numbers: list[int] = field(s16[5])
    yes: bool = False


TWO_NAMES = """
pairs[1] = Pair(1, 2)
one = pairs.get(1)
other = pairs.get(1)
if one is None or other is None:
    return
x = other.low
one.low = 5
out[0].r0 = other.low
out[0].r1 = x
one.low += 10
out[0].r2 = other.low
t = (one.low, one)
other.low = 9
out[0].r3 = t[0]
out[0].r4 = t[1].low
"""
WRITTEN_BETWEEN = """
out[0].r0 = 1
x = out[0].r0
out[0].r0 = s
out[0].r1 = out[0].r0 + x
out[0].r0 += 7
out[0].r2 = out[0].r0
"""
INDICES_THAT_MEET = """
table[w & 7] = 3
table[s & 7] = 4
out[0].r0 = table[w & 7]
table[1] += 10
out[0].r1 = table[s & 7]
r = Narrow(1, 2, 3, 4, 5, 6, 7, 8, 9, (1, 2, 3, 4, 5))
r.numbers[w & 3] = -7
out[0].r2 = r.numbers[1]
r.numbers[1] = 70000 + s
out[0].r3 = r.numbers[s & 3]
r.numbers[w & 3] += 1
out[0].r4 = r.numbers[1]
"""
NARROW = """
r = Narrow(s, s, s, s, s, s, s, s, s, (s, s, s, s, s), s)
out[0].r0 = r.a + r.b + r.c
out[0].r1 = r.d
out[0].r2 = r.e
out[0].r3 = r.f
out[0].r4 = r.g >> 1
out[0].r5 = r.h
out[0].r6 = r.numbers[4]
out[0].r7 = r.yes
"""
NARROW_CHANGED = """
r = Narrow(s, s, s, s, s, s, s, s, s, (s, s, s, s, s), s)
r.e += 3
r.a -= 200
out[0].r0 = r.e
out[0].r1 = r.a
r.yes = r.e - 1
out[0].r2 = r.yes
r.f = r.e << 16
out[0].r3 = r.f
"""
EXCHANGED = """
r = Pair(s, 1)
for j in range(5):
    r.low, r.high = r.high, r.low + r.high
out[0].r0 = r.low
out[0].r1 = r.high
q = Pair(r.high, r.low)
r.low = q.low + 10
q.high = r.low
out[0].r2 = q.high
q = Pair(q.high, q.low)
out[0].r3 = q.low
"""
CALLS = """
out[0].r0 = bump() * 100 + bump() * 10 + bump()
counts[bump()] = bump()
out[0].r1 = counts.get(5, 0)
"""
NAMED = """
x = s
out[0].r0 = (x := x + 1) + x * 10
out[0].r1 = x + (x := 10) + x
out[0].r2 = x if (x := x - 9) > 0 else -x
if s > 0 and (x := s * 2) > 3:
    out[0].r3 = x
out[0].r4 = x
"""
CASES = {
    "two names for one entry": (TWO_NAMES, [5, 1, 15, 15, 9]),
    "written between reads": (WRITTEN_BETWEEN, [8, 2, 8]),
    "indices that meet": (INDICES_THAT_MEET, [4, 14, -7, 4465, 4466]),
    "narrow fields": (NARROW, [3, 1, 1, 1, 0, 1, 1, 1]),
    "narrow fields changed": (NARROW_CHANGED, [4, 57, 1, 262144]),
    "exchanged": (EXCHANGED, [8, 13, 23, 23]),
    "calls from left to right": (CALLS, [123, 4]),
    "assignment expressions": (NAMED, [22, 22, 1, 0, 2]),
}


@pytest.mark.parametrize("target", [Host(), Oldest()], ids=["host", "oldest"])
@pytest.mark.parametrize("name", CASES)
def test_order(target, name):
    body, expected = CASES[name]
    outside = (
        "from tests.kernel.test_language_order import Narrow\n\ndef bump():\n    out[0].r7 += 1\n    return out[0].r7"
    )
    with outer(body, "w, s", outside).loaded(target) as loaded:
        assert loaded.run(w=1, s=1)[: len(expected)] == expected


@pytest.mark.parametrize("target", [Host(), Oldest()], ids=["host", "oldest"])
def test_negative_numbers_in_narrow_fields(target):
    outside = "from tests.kernel.test_language_order import Narrow"
    with outer(NARROW, "w, s", outside).loaded(target) as loaded:
        assert loaded.run(w=1, s=-2) == [-6, 254, 65534, (1 << 32) - 2, (1 << 63) - 1, 65534, -2, 1]


#: Each place is 10, and what is added is computed by a function that writes 100 more there. Shared with other
#: processors, it keeps both changes; the program's own memory has what Python says: 10, read before, and 1.
WRITTEN_WHILE_ADDING = """
counts[1] = 10
counts[1] += add_to_entry()
out[0].r0 = counts.get(1, 0)
pairs[1] = Pair(10, 10)
entry = pairs.get(1)
if entry is None:
    return
entry.low += add_to_member(entry)
out[0].r1 = entry.low
table[2] = 10
table[2] += add_to_element()
out[0].r2 = table[2]
table[w + 2] += add_to_element()
out[0].r3 = table[3]
r = Pair(10, 10)
r.low += add_to_member(r)
out[0].r4 = r.low
n = Narrow(0, 0, 0, 0, 0, 0, 0, 0, 0, (10, 10, 10, 10, 10))
n.numbers[2] += add_to_own_element(n)
out[0].r5 = n.numbers[2]
x = 10
x += (x := 100) - 99
out[0].r6 = x
counts[3] += add_to_missing()
out[0].r7 = counts.get(3, 0)
"""
WRITERS = """
from tests.kernel.test_language_order import Narrow

def add_to_entry():
    counts[1] += 100
    return 1

def add_to_member(pair):
    pair.low += 100
    return 1

def add_to_element():
    table[2] += 100
    return 1

def add_to_own_element(record):
    record.numbers[2] += 100
    return 1

def add_to_missing():
    counts[3] = 100
    return 1
"""


@pytest.mark.parametrize("target", [Host(), Oldest()], ids=["host", "oldest"])
def test_an_entry_written_while_its_addend_is_computed_keeps_both_changes(target):
    """Maps' entries, their members and elements, be they there already or not; what nobody shares is as in Python."""
    with outer(WRITTEN_WHILE_ADDING, "w, s", WRITERS).loaded(target) as loaded:
        assert loaded.run(w=1) == [111, 111, 111, 1, 11, 11, 11, 101]


class Inner(Struct):
    x: s64 = 10


class Called(Struct):
    """A context with fields of every kind."""

    whole: s64 = 10
    narrow: s8 = 10
    port: be16 = 10
    numbers: list[int] = field(s16[4], default=(10, 10, 10, 10))
    inner: Inner = Inner()


CALLED = """
def write(ctx):
    ctx.whole = ctx.narrow = ctx.port = ctx.inner.x = 99
    ctx.numbers[2] = 99
    return 1

@bpf.syscall(Called)
def called(ctx: Called) -> int:
    ctx.PLACE SIGN write(ctx)
    return 0
"""


@pytest.mark.parametrize("place", ["whole", "narrow", "port", "numbers[2]", "inner.x"])
@pytest.mark.parametrize(("sign", "expected"), [("+=", 11), ("-=", 9), ("<<=", 20)])
def test_a_context_is_read_before_what_is_added_is_computed(place, sign, expected):
    """It is the program's own: 10, read before, and not the 99 that the function writes there."""
    needs("program:syscall")
    bpf = BPF()
    called = bpf.define(CALLED.replace("PLACE", place).replace("SIGN", sign)).called
    with bpf:
        record = called.run(Called()).record
    assert (
        eval(place, {name: getattr(record, name) for name in ("whole", "narrow", "port", "numbers", "inner")})
        == expected
    )
