"""Numbers whose bounds the compiler knows: verifiers believe them, in every form of an index, in loops and results."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from pyebpf import BPF, Struct, s64, u64
from tests.language.harness import RESULTS, Case, Host, Oldest
from tests.language.indices import FORMS, LARGER, OUTSIDE
from tests.language.model import run
from tests.language.test_integers import VALUES

RUNS = 3
PARAMETERS = "s, t, u, v, i, w, h, k, b, c, q"
EXTREMES = VALUES | {"h": [0, -1, 7, 32767, -32768], "k": [0, 1, 7, 65535]}

#: Twelve numbers that live through all of it: what is checked before a call lives on the stack after.
PRESSURE = [f"p{n} = table[{n % 8}] * {n + 3}" for n in range(12)]
USED = [f"table[{n % 8}] = p{n}" for n in range(12)]


def outside(length):
    """A record with an array of so many elements, and a map with one."""
    return f"class Held(Struct):\n    pad: u32\n    slots: u32[{length}]\n\nheld = bpf.array(value=Held)\n{OUTSIDE}"


def check(forms, length, target, around=((), ())):
    """Each form reads the element that Python says, for several numbers."""
    plain = OUTSIDE.replace("@bpf.subprogram\n", "")
    chance = random.Random(length)
    for start in range(0, len(forms), RESULTS):
        part = forms[start : start + RESULTS]
        reads = [f"out[0].r{n} = e.slots[{form}]" for n, form in enumerate(part)]
        body = "\n".join(["e = held[0]", *around[0], *reads, *around[1]])
        indices = "\n".join(f"out[0].r{n} = {form}" for n, form in enumerate(part))
        with Case(body, PARAMETERS, "from pyebpf import Struct\n" + outside(length)).loaded(target) as loaded:
            loaded["held"][0] = type(loaded["held"][0])(0, tuple(100 + n for n in range(length)))
            for _ in range(RUNS):
                given = {name: chance.choice(EXTREMES[name]) for name in PARAMETERS.split(", ")}
                expected = run(indices, PARAMETERS, given, plain)[: len(part)]
                assert loaded.run(**given)[: len(part)] == [100 + index for index in expected], (part, given)


@pytest.mark.parametrize("length", range(4, 17))
def test_every_form_of_an_index_below_four_is_believed_in_arrays_of_4_to_16(length):
    """A bound that only the compiler knows is in the code, whatever the length."""
    check(FORMS, length, Host())


@pytest.mark.parametrize("length", sorted(LARGER))
def test_indices_that_fill_an_array_are_believed(length):
    """So is one that is as large as the array allows."""
    check(LARGER[length], length, Host())


def test_indices_are_believed_where_registers_run_out():
    """What is on the stack between its test and its use keeps its bounds."""
    check(FORMS, 5, Oldest(), (PRESSURE, USED))


def test_an_index_where_no_run_comes_is_taken():
    """What two tests say of it contradicts itself: neither the compiler nor the verifier has anything to prove."""
    test = "if u < 4:\n    out[0].r0 = 5\n    if u == 180:\n        out[0].r0 = e.slots[u // 2]"
    body = f"e = held[0]\nout[0].r0 = 0\n{test}"
    with Case(body, "u", "from pyebpf import Struct\n" + outside(4)).loaded(Host()) as loaded:
        assert [loaded.run(u=number)[0] for number in (3, 4, 180)] == [5, 0, 0]


@pytest.mark.parametrize("index", ["u % 3", "u.bit_length() % 3", "(u | s) % 3", "s % 4 if s > 0 else 1"])
def test_an_index_in_the_test_of_a_while(index):
    """Its bound is known in each iteration, as that of one in the body is."""
    body = f"e = held[0]\nout[0].r0 = 0\nj = {index}\nn = s64(u & 7)\n"
    body += "while n > 0 and e.slots[j] == 0:\n    n -= 1\n    out[0].r0 += 1"
    with Case(body, "u, s", "from pyebpf import Struct\n" + outside(4)).loaded(Host()) as loaded:
        assert [loaded.run(u=number, s=2)[0] for number in (0, 3, 8, 15)] == [0, 3, 0, 7]


LOOPS = {
    "up": "n = u % 5\nwhile n < 10:\n    n += 1\n    out[0].r0 += n",
    "down": "n = s64(u % 5)\nwhile n > 0:\n    n -= 1\n    out[0].r0 += n",
    "to a bound": "n, m = 0, s64(u % 50)\nwhile n < m:\n    n += 1\n    out[0].r0 += n",
    "of two paths": "n = s64(u % 5)\nif u > 9:\n    n = 3\nwhile n > 0:\n    n -= 1\n    out[0].r0 += n",
    "of two paths, halved": "n = (s64(u) if u < 6 else s % 6) // 2\nwhile n > 0:\n    n -= 1\n    out[0].r0 += n + 1",
    "from a table": "n = 2 - (0, 1, 2, 1)[u & 3]\nwhile n > 0:\n    n -= 1\n    out[0].r0 += n * 3 + (7, 9)[s > n]",
    "of a magnitude": "n = abs(s64(u % 5) - 4)\nwhile n > 0:\n    n -= 1\n    out[0].r0 += n",
    "from below zero": "n = -s64(u % 5)\nwhile n < 3:\n    n += 1\n    out[0].r0 += n",
}


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_a_while_ends_for_the_verifier_where_it_ends_for_the_compiler(body):
    """The bounds of its counter, and of what that is compared with, are in the code."""
    with Case(body, "u, s").loaded() as loaded:
        for u in (0, 4, 7, (1 << 64) - 1):
            loaded.reset()
            assert loaded.run(u=u, s=1) == run(body, "u, s", {"u": u, "s": 1})


def test_what_a_program_returns_is_believed():
    """A hook that takes 0 or 1 takes a remainder by 2, and one that takes 0 to 3 a remainder by 3."""
    bpf = BPF()
    numbers = bpf.array(value=u64, size=2)

    @bpf.cgroup_sysctl()
    def allowed() -> int:
        return numbers[0] % 2

    @bpf.cgroup_skb_egress()
    def passed() -> int:
        return numbers[1] % 3

    with closing(bpf):
        bpf.load()
        assert bpf.programs


def test_code_that_no_run_reaches_keeps_the_bounds_of_its_indices():
    """What is never negative is tested for it: in that branch, too, an index is still inside after its first use."""
    bpf = BPF()
    numbers = bpf.array(value=u64, size=8)

    class Held(Struct):
        slots: u64[7]

    held = bpf.array(value=Held)

    @bpf.raw_tracepoint("sched_switch")
    def program():
        e = held[0]
        if s64(numbers[1] & 77) < -5:
            for i in range(6, 1, -1):
                numbers[2] += e.slots[i]
                e.slots[i] = numbers[3] % u64(not numbers[4])

    with closing(bpf):
        bpf.load()
        assert bpf.programs


COMPARED = {
    "the larger": ("out[0].r0 = e.slots[max(known, n)]", max),
    "the larger, of more": ("out[0].r0 = e.slots[max(known, n) + 0 * n]", max),
    "less": ("if known < n:\n        out[0].r0 = e.slots[n]", lambda known, n: n if known < n else None),
    "equal": ("if known == n + 4:\n        out[0].r0 = e.slots[n]", lambda known, n: n if known == n + 4 else None),
    "kept": ("more = known < n\n    out[0].r0 = e.slots[n] + more", lambda known, n: n + (known < n)),
}


@pytest.mark.parametrize("length", [5, 8])
@pytest.mark.parametrize("form", COMPARED)
def test_an_index_that_was_compared_with_a_number_that_the_verifier_knows(form, length):
    """Verifiers before Linux 6.8 follow `4 < n` where n is at most 4: what they know of n contradicts itself there."""
    line, expected = COMPARED[form]
    body = f"e = held[0]\nout[0].r0 = 0\nn = u & 7\nknown = 4\nif s == 3:\n    known = 3\nif n < 5:\n    {line}"
    with Case(body, "u, s", "from pyebpf import Struct\n" + outside(length)).loaded(Host()) as loaded:
        loaded["held"][0] = type(loaded["held"][0])(0, tuple(100 + n for n in range(length)))
        for known in (3, 4):
            indices = [expected(known, n) if n < 5 else None for n in range(8)]
            found = [loaded.run(u=n, s=known)[0] for n in range(8)]
            assert found == [0 if index is None else 100 + index for index in indices]
