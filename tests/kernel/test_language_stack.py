"""The stack: its 512 bytes, which loops over maps inside each other share, and what the verifier wants aligned."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, Struct, array, char, field, s64, u8, u16, u32, u64
from tests.language.harness import Case, Host
from tests.support.needs import needs


class Sums(Struct):
    a: s64 = 0
    b: s64 = 0
    c: s64 = 0
    d: s64 = 0
    e: s64 = 0
    f: s64 = 0
    g: s64 = 0
    h: s64 = 0
    i: s64 = 0
    j: s64 = 0
    k: s64 = 0
    n: s64 = 0
    o: s64 = 0
    q: s64 = 0


def test_locals_that_are_too_many_fit_as_fields_of_one_record():
    """Three loops inside each other change fourteen locals: refused at the innermost; the same in a record runs."""
    needs("program:syscall")
    bpf = BPF()
    table = bpf.hash(key=u32, value=u64)

    @bpf.syscall()
    def program():
        a, b, c, d, e, f = 0, 0, 0, 0, 0, 0
        g, h, i, j, k, n, o, q = 0, 0, 0, 0, 0, 0, 0, 0
        for x in table:
            a += x
            b += a
            for y in table:
                c += y
                d += c + x
                e += b
                for z in table:
                    f += z
                    g += x + f
                    h += y + g
                    i += e
                    j += i + z
                    k += 1
                    n += k + d
                    o += a + n
                    q += c + o
        return a + b + c + d + e + f + g + h + i + j + k + n + o + q

    with pytest.raises(CompileError) as caught:
        bpf.specs()
    assert caught.value.message.startswith("the calls program (")
    assert caught.value.message.endswith(
        "bytes of stack together, and a BPF program has 512: keep large records in a map; a local that a loop over a "
        "map uses takes 8 bytes in every loop around it: make such locals fields of one record"
    )
    assert caught.value.location.text.strip() == "for z in table:"
    bpf = BPF()
    numbers = bpf.hash(key=u32, value=u64)

    @bpf.syscall()
    def recorded():
        s = Sums()
        for x in numbers:
            s.a += x
            s.b += s.a
            for y in numbers:
                s.c += y
                s.d += s.c + x
                s.e += s.b
                for z in numbers:
                    s.f += z
                    s.g += x + s.f
                    s.h += y + s.g
                    s.i += s.e
                    s.j += s.i + z
                    s.k += 1
                    s.n += s.k + s.d
                    s.o += s.a + s.n
                    s.q += s.c + s.o
        return s.k * 1000 + s.a * 100 + s.c * 10 + s.f

    with bpf:
        numbers.update(dict.fromkeys((1, 2, 3), 1))
        assert recorded.run().value == 27 * 1000 + 6 * 100 + 18 * 10 + 54


class Odd(Struct):
    """Arrays whose elements do not begin at multiples of 8."""

    length: u32 = 0
    names: list[str] = field(array(char[8], 2), default=["", ""])
    short: u16 = 0
    rows: list[bytes] = field(array(array(u8, 12), 3), default=[bytes(12)] * 3)
    few: list[bytes] = field(array(array(u8, 6), 2), default=[bytes(6)] * 2)


class Where(Struct):
    """What the program is asked: two indices."""

    first: u64 = 0
    second: u64 = 0


def test_elements_at_run_time_indices_are_aligned_as_they_lie():
    """The verifier refuses an access of 8 bytes to the stack at an address that is a multiple of 4 alone."""
    needs("program:syscall")
    bpf = BPF()
    kept = bpf.hash(u32, Odd)

    @bpf.syscall(Where)
    def probe(ctx: Where) -> int:
        odd = Odd()
        odd.names[ctx.first & 1] = "abcdefg"
        odd.rows[ctx.first % 3] = b"abcdefghijkl"
        odd.few[ctx.second & 1] = b"mnopqr"
        odd.names[ctx.second & 1] = odd.names[ctx.first & 1]
        name = odd.names[ctx.second & 1]
        found = 1 if odd.rows[ctx.first % 3] == b"abcdefghijkl" else 0
        found += 2 if odd.few[ctx.first & 1] == odd.few[ctx.second & 1] else 0
        found += 4 if name == "abcdefg" else 0
        odd.rows[ctx.second % 3] = odd.rows[ctx.first % 3]
        kept[1] = odd
        return found

    with bpf:
        for first, second in ((0, 1), (1, 0), (1, 1), (2, 1)):
            value = probe.run(Where(first=first, second=second)).value
            assert value == 1 + (2 if first & 1 == second & 1 else 0) + 4
            entry = kept[1]
            assert {entry.names[first & 1], entry.names[second & 1]} == {"abcdefg"}
            assert entry.rows[first % 3] == entry.rows[second % 3] == b"abcdefghijkl"
            assert entry.few[second & 1] == b"mnopqr"


BESIDE = """
from pyebpf import Struct, array, field

class Beside(Struct):
    before: u32 = 0
    first: {element} = 0
    elements: list[{element}] = field(array({element}, {count}), default=[0] * {count})
    last: {element} = 0
    after: u32 = 0

class Around(Struct):
    number: u64 = 0
    beside: Beside

held = bpf.array(Beside)
kept = bpf.hash(u32, Beside)
"""
STORED = """
around = Around(beside={made})
beside = around.beside
beside.elements[s % {count}] = u & 255
out[0].r0 = beside.before + beside.first + beside.last
beside.before = 100
beside.first = s
beside.elements[s % {count}] += 1
beside.last = 7
out[0].r1 = beside.elements[0] + beside.after
beside.after = 102
kept[1] = beside
"""


@pytest.mark.parametrize("made", ["Beside()", "held[0]"])
@pytest.mark.parametrize("element", ["u8", "u16", "u32", "u64"])
@pytest.mark.parametrize("count", [3, 5, 9])
def test_what_lies_beside_elements_at_run_time_indices_is_kept(made, element, count):
    """Verifiers forget a register that lies in the same eight bytes as an element that is stored at a varying index.

    The registers are those with which the record is filled, eight bytes at once.
    """
    outside = BESIDE.format(element=element, count=count)
    with Case(STORED.format(count=count, made=made), "s: u64, u", outside).loaded(Host()) as loaded:
        for index in range(count):
            assert loaded.run(s=index, u=50)[:2] == [0, 51 if index == 0 else 0]
            elements = [0] * count
            elements[index] = 51
            value = loaded["kept"][1]
            assert list(value.elements) == elements
            assert (value.before, value.first, value.last, value.after) == (100, index, 7, 102)
