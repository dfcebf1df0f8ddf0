"""The 512 bytes of stack that loops over maps inside each other have together: the error's remedy is one."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, Struct, s64, u32, u64
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
