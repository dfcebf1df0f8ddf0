"""Names that are given strings by turns, as in Python: in loops, on either of two paths, in loops over maps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyebpf import BPF, Struct, char, comm, field, u8, u32, u64
from tests.differential.texts import MAPS, Noted, generate, pick
from tests.differential.walks import run_text
from tests.support.needs import needs
from tests.support.refused import compile_error

#: In an emulated machine, ten times slower, another kernel's verifier is what counts.
PROGRAMS = int(os.environ.get("PYEBPF_TEXTS", "5" if "PYEBPF_VM" in os.environ else "37"))
FIRST = int(os.environ.get("PYEBPF_RANDOM_SEED", "0"))


class Told(Struct):
    first: str = field(char[16])
    second: str = field(char[16])


class Long(Struct):
    kind: u8
    one: str = field(char[200])
    other: str = field(char[333])


class Short(Struct):
    name: str = field(char[8])


def told_by(make, **contents):
    """Run what `make(bpf, told)` gives, with maps filled by name; what the program told."""
    needs("program:syscall")
    bpf = BPF()
    told = bpf.array(value=Told, name="told")
    program = make(bpf, told)
    with bpf:
        for name, entries in contents.items():
            bpf[name].update(entries)
        value = program.run().value
        return value, told[0].first, told[0].second


def test_the_key_of_the_most():
    """A name takes over the text of a key in the body of a loop over the map, and keeps it when the entry is gone."""

    def make(bpf, told):
        calls = bpf.hash(key=char[16], value=u64, name="calls")

        @bpf.syscall()
        def program():
            most: u64 = 0
            name = "nobody"
            for key, value in calls.items():
                if value > most:
                    most, name = value, key
                del calls[key]
            told[0] = Told(first=name, second="")
            return most

        return program

    assert told_by(make) == (0, "nobody", "")
    assert told_by(make, calls={"one": 3, "fifteen letters": 17, "x": 5}) == (17, "fifteen letters", "")


def test_loops_over_maps_inside_each_other():
    """Each body reaches the name's memory, that of the program or of the body around it."""

    def make(bpf, told):
        outer = bpf.hash(key=char[8], value=u64, name="outer")
        inner = bpf.hash(key=char[16], value=u64, name="inner")

        @bpf.syscall()
        def program():
            last, rounds = "", 0
            for key, value in outer.items():
                near = key
                for name, other in inner.items():
                    if other == value:
                        near = name
                        last = near
                        break
                if near == key:
                    rounds += 1
                told[0].second = near
            told[0].first = last
            return rounds

        return program

    found = told_by(make, outer={"a": 1}, inner={"fifteen letters": 1, "b": 2})
    assert found == (0, "fifteen letters", "fifteen letters")
    assert told_by(make, outer={"a": 3}, inner={"b": 2}) == (1, "", "a")
    value, first, second = told_by(make, outer={"a": 1, "c": 3}, inner={"b": 1})
    assert (value, first, second in ("b", "c")) == (1, "b", True)


@pytest.mark.parametrize("n", range(5))
def test_either_of_two_paths(n):
    """`if`, `match`, a loop that is left early: the name is what the path gave it, literals and strings in memory."""

    def make(bpf, told):
        shorts = bpf.hash(key=u32, value=Short, name="shorts")
        numbers = bpf.array(value=u64, name="numbers")

        @bpf.syscall()
        def program():
            number = numbers[0]
            match number:
                case 0:
                    name = "zero"
                case 1:
                    name = "a longer name"
                case _:
                    name = "many"
            short = shorts.get(3)
            if short is not None and number > 3:
                name = short.name
                short.name = "other"
            before = name
            for each in ("one", "two", "three"):
                if number == 2:
                    break
                name = each
            told[0] = Told(first=before, second=name)
            return len(name) + (name == "three") * 100

        return program

    first = ["zero", "a longer name", "many", "many", "seventh"][n]
    expected = (4, first, first) if n == 2 else (105, first, "three")
    assert told_by(make, numbers={0: n}, shorts={3: Short(name="seventh")}) == expected


def test_a_name_keeps_what_another_gave_it():
    """Assigning, swapping, tuples, arguments and `:=` copy; the other name then changes alone."""

    def make(bpf, told):
        numbers = bpf.array(value=u64, name="numbers")

        def tell(a, b):
            kept = a
            for _ in range(2):
                a = b
            told[0] = Told(first=kept, second=a)
            return a == b

        @bpf.syscall()
        def program():
            one, two = "one", "two"
            count = 0
            for i in range(numbers[0] & 7):
                before = one
                one, two = two, one
                pair = (one, i)
                one = "three"
                count += pair[0] != one
                count += 10 * (before == one)
                one = before
            count += 100 * ((one == "one") + 2 * ((one := two) == "one") + 4 * (one == "two"))
            return count + 1000 * tell(one, "end")

        return program

    def model(rounds):
        one, two, count = "one", "two", 0
        for _ in range(rounds):
            before = one
            one, two = two, one
            pair = (one, 0)
            one = "three"
            count += pair[0] != one
            count += 10 * (before == one)
            one = before
        count += 100 * ((one == "one") + 2 * ((one := two) == "one") + 4 * (one == "two"))
        return count + 1000, one, "end"

    for rounds in range(4):
        assert told_by(make, numbers={0: rounds}) == model(rounds)


def test_strings_of_helpers():
    """What a helper reads goes to the name's memory straight, however long the name's other strings are."""

    def make(bpf, told):
        numbers = bpf.array(value=u64, name="numbers")

        @bpf.syscall()
        def program():
            name = "x" * 15
            for _ in range(numbers[0] & 3):
                name = comm()
            told[0] = Told(first=name, second="")
            return name == comm()

        return program

    needs("helper:get_current_comm@syscall")
    own = Path("/proc/self/comm").read_text().strip()
    assert told_by(make, numbers={0: 2}) == (1, own, "")
    assert told_by(make, numbers={0: 0}) == (0, "x" * 15, "")


def test_random_programs_agree_with_cpython():
    """The same source returns the same number, whatever the order in which the kernel goes over the maps."""
    needs("helper:for_each_map_elem@syscall")
    bpf = BPF()
    maps = {
        "table": bpf.hash(key=char[8], value=u64, name="table"),
        "other": bpf.hash(key=char[10], value=u64, name="other"),
    }
    names = {"Noted": Noted, "pick": pick}
    programs = []
    for seed in range(FIRST, FIRST + PROGRAMS):
        text, name = generate(seed), f"program{seed}"
        function = run_text(text.replace("def program", f"def {name}"), {**names, **maps}, name)
        programs.append((text, bpf.syscall()(function)))
    with bpf:
        for name, keys in MAPS.items():
            maps[name].update(dict.fromkeys(keys, 1))
        walked = {name: list(table) for name, table in maps.items()}
        for text, program in programs:
            assert program.run().value == run_text(text, {**names, **walked})(), text


def refused(make):
    bpf = BPF()
    make(bpf, bpf.hash(key=u32, value=char[16], name="texts"))
    return compile_error(bpf.specs)


def test_what_stays_refused():
    """What may be None or is not a string, a value on one path only, and a method, which would be asked later."""
    needs("helper:for_each_map_elem@syscall")

    def none(bpf, texts):
        @bpf.syscall()
        def program():
            name = "x"
            for i in range(3):
                name = texts.get(i)
            return name == "x"

    def number(bpf, texts):
        @bpf.syscall()
        def program():
            name = "x"
            for i in range(3):
                name = i
            return name

    def one_path(bpf, texts):
        @bpf.syscall()
        def program():
            for _ in range(3):
                name = "x"
                name = "y"
            return name == "x"

    def too_long(bpf, texts):
        @bpf.syscall()
        def program():
            name = "x"
            for _ in range(3):
                name = "yy"
            return name == "xyz"

    def method(bpf, texts):
        @bpf.syscall()
        def program():
            name = "x"
            begins = name.startswith
            for _ in range(3):
                name = "y"
            return begins("x")

    assert "the method startswith of the char[2] of a local cannot be stored in a variable" in refused(method)
    assert "name may be None: test it with `is None` first" in refused(none)
    assert "name refers to the char[2] of a local before the loop and to an s64 in it" in refused(number)
    assert "name is assigned on one path only" in refused(one_path)
    assert "'xyz' can never fit char[3]: at most 2 bytes" in refused(too_long)


@pytest.mark.parametrize("at", [None, 0, 1, 100, 198])
def test_long_texts_are_compared(at):
    """By a loop, also where words are not aligned; behind the shorter there may be more of the longer."""
    needs("program:syscall")
    bpf = BPF()
    texts = bpf.array(value=Long, name="texts")

    @bpf.syscall()
    def program():
        same = texts[0].one == texts[0].other
        return (1 if same else 0) + (2 if texts[0].other != texts[0].one else 0)

    one = "a" * 199
    other = one if at is None else f"{one[:at]}b{one[at + 1 :]}"
    with bpf:
        texts[0] = Long(kind=1, one=one, other=other)
        assert program.run().value == (1 if at is None else 2)
        texts[0] = Long(kind=1, one=one, other=f"{one}a")
        assert program.run().value == 2
