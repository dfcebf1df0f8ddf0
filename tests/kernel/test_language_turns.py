"""Names that are given different things by turns, in the kernel: None or a text or an entry, either of two records.

What CPython can run as it stands is in tests/language/control.txt; here are maps, texts, and loops over maps.
"""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, Struct, char, comm, enum, field, has_enum, has_field, s64, u8, u32, u64
from tests.language.harness import Host, Oldest
from tests.support.needs import needs


class Pair(Struct):
    low: s64
    high: s64


class Told(Struct):
    first: str = field(char[16])
    second: str = field(char[32])


class Older(Host):
    """This machine's kernel without the instructions that 6.1 lacks."""

    def has(self, feature: str) -> bool:
        return not feature.startswith("isa:") and super().has(feature)


def name_of(number):
    if number == 0:
        return "zero"
    if number == 1:
        return "one"
    if number == 2:
        return None
    return comm()


@pytest.fixture(params=[Host(), Older()], ids=["host", "older"])
def run(request):
    """Compile what `make(bpf)` declares, fill its maps, run its program; its value and its maps' entries by name."""
    needs("program:syscall")

    def run(make, **contents):
        bpf = BPF(target=request.param)
        bpf.array(value=Told, name="told")
        bpf.array(value=u64, size=16, name="table")
        bpf.hash(key=u32, value=Pair, name="pairs")
        bpf.hash(key=char[16], value=u64, name="names")
        program = make(bpf, *(bpf[name] for name in ("told", "table", "pairs", "names")))
        with bpf:
            for name, entries in contents.items():
                bpf[name].update(entries)
            value = program.run().value
            return value, bpf["told"][0], dict(bpf["pairs"].items()), dict(bpf["names"].items())

    return run


@pytest.mark.parametrize("number", range(4))
def test_a_function_returns_a_text_or_none(run, number):
    """A literal, another literal, None, or what is read on the event."""

    def make(_bpf, told, table, _pairs, names):
        @_bpf.syscall()
        def program():
            found = name_of(table[0])
            if found is None:
                return 7
            told[0] = Told(first=found, second=found)
            names[found] += 1
            return len(found)

        return program

    value, told, _, names = run(make, table={0: number})
    if number == 2:
        assert (value, told, names) == (7, Told("", ""), {})
        return
    expected = {0: "zero", 1: "one"}.get(number, told.first)
    assert (value, told, names) == (len(expected), Told(expected, expected), {expected: 1})
    assert expected


def test_none_then_a_text_in_a_loop(run):
    """The last one that the loop finds, and None where it finds none."""

    def make(bpf, told, table, _pairs, _names):
        @bpf.syscall()
        def program():
            found = None
            for i in range(4):
                if table[i] == 1:
                    found = "one"
                elif table[i] == 2:
                    found = "number two"
            if found is not None:
                told[0] = Told(first=found, second="")
            return 0 if found is None else 1

        return program

    assert run(make, table={0: 2, 3: 1})[:2] == (1, Told("one", ""))
    assert run(make, table={0: 1, 2: 2})[:2] == (1, Told("number two", ""))
    assert run(make, table={4: 1})[:2] == (0, Told("", ""))


def test_none_then_a_key_of_a_map(run):
    """The name of the most, whose entry is gone by then."""

    def make(bpf, told, _table, _pairs, names):
        @bpf.syscall()
        def program():
            best = None
            most: u64 = 0
            for name, count in names.items():
                if best is None or count > most:
                    best, most = name, count
                del names[name]
            if best is None:
                return 0
            told[0] = Told(first=best, second="")
            return most

        return program

    assert run(make, names={"a": 3, "bcd": 11, "e": 5}) == (11, Told("bcd", ""), {}, {})
    assert run(make)[:2] == (0, Told("", ""))


def test_none_then_an_entry_of_a_map(run):
    """In a loop over a map, whose body is a function that verifiers look at alone."""

    def make(bpf, _told, _table, pairs, _names):
        @bpf.syscall()
        def program():
            best = None
            for pair in pairs.values():
                if best is None or pair.high > best.high:
                    best = pair
            if best is None:
                return 0
            best.high = 0
            return best.low

        return program

    value, _, pairs, _ = run(make, pairs={n: Pair(n * 10, n * n % 11) for n in range(1, 8)})
    assert (value, pairs[value // 10]) == (30, Pair(30, 0))
    assert run(make)[0] == 0


def test_an_entry_or_a_record_in_its_place(run):
    """Written through the name: to the map where there is an entry, to the record where there is none."""

    def make(bpf, _told, table, pairs, _names):
        @bpf.syscall()
        def program():
            pair = pairs.get(table[0])
            if pair is None:
                pair = Pair(low=100, high=0)
            pair.low += 1
            pair.high = pair.low
            low = pair.low
            if table[1] == 1:
                pairs[9] = pair
            return low

        return program

    assert run(make, pairs={1: Pair(5, 5)}, table={0: 1})[::2] == (6, {1: Pair(6, 6)})
    assert run(make, pairs={1: Pair(5, 5)}, table={0: 2})[::2] == (101, {1: Pair(5, 5)})
    assert run(make, pairs={1: Pair(5, 5)}, table={0: 2, 1: 1})[::2] == (101, {1: Pair(5, 5), 9: Pair(101, 101)})


def test_the_greatest_of_a_map_as_a_tuple(run):
    """Constants before the loop, a key and a u64 in it; an entry that is taken out, or what stands in for it."""

    def make(_bpf, _told, table, _pairs, names):
        @_bpf.syscall()
        def program():
            best = (0, 0)
            for i in range(16):
                if table[i] > best[1]:
                    best = (i, table[i])
            return best[0] * 1000 + best[1] + names.pop("here", 7) * 100_000 + names.pop("there", 7) * 1_000_000

        return program

    value, _, _, names = run(make, table={3: 5, 9: 12, 11: 1}, names={"here": 2, "other": 1})
    assert (value, names) == (7_209_012, {"other": 1})


def test_a_counter_by_while_is_an_index(run):
    """Up and down, from a constant and from a number with bounds: nothing else proves that it lies inside."""

    def make(bpf, _told, table, _pairs, _names):
        @bpf.syscall()
        def program():
            found = 0
            i = 0
            while i < 16:
                found = found * 3 + table[i]
                i += 1
            while i > 0:
                i -= 1
                found = found * 3 + table[i]
            j = table[0] & 3
            while j <= 15:
                found = found * 3 + table[j]
                j += 2
            return found & 0xFFFFFFFF

        return program

    numbers = [7, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
    expected = 0
    for number in [*numbers, *numbers[::-1], *numbers[7 & 3 :: 2]]:
        expected = expected * 3 + number
    assert run(make, table=dict(enumerate(numbers)))[0] == expected & 0xFFFFFFFF


def test_a_counter_that_its_type_cuts_does_not_end_the_loop():
    """A u8 never arrives at 300: nothing is concluded from where it began."""
    bpf = BPF(target=Oldest())

    @bpf.raw_tracepoint("sys_enter")
    def program():
        i: u8 = 250
        while i < 300:
            i += 1

    with pytest.raises(CompileError, match="cannot prove that this `while` ends"):
        bpf.specs()


def test_comprehensions_with_words_that_are_known_while_compiling(run):
    """`enum()`, `has_enum()` and `has_field()` in all kinds of comprehensions, displays, and `next`."""

    def make(bpf, told, table, _pairs, names):
        @bpf.syscall()
        def program():
            states = {enum(name): name for name in ("TCP_LISTEN", "TCP_CLOSE", "TCP_NONE") if has_enum(name)}
            names[states.get(table[0], "?")] += 1
            names[{enum("TCP_LISTEN"): "listening"}.get(table[0], "?")] += 1
            field_name = next(name for name in ("no_such", "sk_state_nor_this", "comm") if has_field(KIND, name))
            told[0] = Told(first=field_name, second=next((n for n in ("a", "bc") if len(n) == table[1]), "none"))
            found = 0
            found += table[0] in {enum(name) for name in ("TCP_LISTEN", "TCP_CLOSE")}
            found += 2 * (table[0] in {enum("TCP_LISTEN"), enum("TCP_CLOSE")})
            found += 4 * any(table[enum(name)] == 5 for name in ("TCP_LISTEN", "TCP_CLOSE"))
            return found

        return program

    value, told, _, names = run(make, table={0: 10, 1: 2, 7: 5})
    assert (value, told) == (7, Told("comm", "bc"))
    assert names == {"TCP_LISTEN": 1, "listening": 1}
    value, told, _, names = run(make, table={0: 3})
    assert (value, told, names) == (0, Told("comm", "none"), {"?": 2})


KIND = "struct task_struct"
