"""Records, strings and arrays in a program's own memory: what is shared, what is copied, what fields hold."""

from __future__ import annotations

import pytest

from pyebpf import Struct, be16, be32, field, u8, u16, u32, u64
from tests.language.harness import Case, Host, Oldest

TARGETS = pytest.mark.parametrize("target", [Host(), Oldest()], ids=["host", "oldest"])


class Inner(Struct):
    """Part of `Outer`."""

    x: u32
    y: u8


class Outer(Struct):
    """Every kind of field."""

    a: u16
    port: be16
    address: be32
    inner: Inner
    mac: bytes = field(u8[6])
    numbers: list[int] = field(u32[3])
    yes: bool = False
    later: u64 = 7


def outer(body, parameters="", outside=""):
    """A case that knows the two records and an array of the larger."""
    case = Case("pass")
    case.names |= {"Inner": Inner, "Outer": Outer, "outers": case.bpf.array(value=Outer, name="outers")}
    inside = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    case.bpf.probes.clear()
    case.run_more(f"{outside}\n@bpf.raw_tracepoint('numbers')\ndef probe({parameters}):\n{inside}\n")
    return case


@TARGETS
def test_fields_of_every_kind(target):
    body = """
r = Outer(a=w, port=8080, address=0x7F000001, inner=Inner(5, 6), mac=(1, 2, 3, 4, 5, w), numbers=(w, 7, 3), yes=w > 3)
part = r.inner
part.x = 9
r.numbers[1] = 70
r.numbers[w & 1] += 1
r.port += 1
outers[0] = r
r.mac[2] = 77
out[0].r0 = outers[0].port
out[0].r1 = outers[0].address == 0x7F000001
out[0].r2 = r.mac[2] + r.mac[5]
out[0].r3 = len(r.numbers)
out[0].r4 = r.later
outers[0].inner.y = outers[0].inner.x + 1
"""
    with outer(body, "w").loaded(target) as loaded:
        assert loaded.run(w=321)[:5] == [8081, 1, 77 + 65, 3, 7]
        assert loaded["outers"][0] == Outer(
            a=321, port=8081, address=0x7F000001, inner=Inner(9, 10), mac=b"\1\2\3\4\5A", numbers=[321, 71, 3], yes=True
        )


@TARGETS
def test_a_record_given_to_another_is_copied_and_what_is_read_from_it_is_a_part(target):
    body = """
i = Inner(1, 2)
r = Outer(1, 2, 3, i, b'123456', (1, 2, 3))
i.x = 50
out[0].r0 = r.inner.x
part = r.inner
part.x = 60
out[0].r1 = r.inner.x
out[0].r2 = i.x
r.inner = Inner(8, 9)
out[0].r3 = part.x
"""
    with outer(body).loaded(target) as loaded:
        assert loaded.run()[:4] == [1, 60, 50, 8]


@TARGETS
def test_names_share_a_record_and_functions_get_it_itself(target):
    body = "a = Inner(1, 2)\nb = a\nbump(b)\nbump(a)\nout[0].r0 = a.x\na = Inner(10, 20)\nout[0].r1 = b.x + a.x"
    with outer(body, "", "def bump(record):\n    record.x += 5").loaded(target) as loaded:
        assert loaded.run()[:2] == [11, 21]


@TARGETS
def test_a_record_made_in_each_round_of_a_loop_is_new(target):
    body = "x = 0\nfor j in range(3):\n    a = Inner(j, x)\n    x += a.x * 10 + a.y\n    a.x = 99\nout[0].r0 = x"
    with outer(body).loaded(target) as loaded:
        assert loaded.run()[0] == 40


@TARGETS
def test_a_name_keeps_its_string_while_the_field_changes(target):
    """As in Python, where strings never change: in a record of one's own, in an entry, and inside a function."""
    body = """
r = Record(1, 2, 3, 'first')
x = r.name
r.name = 'zz'
out[0].r0 = x == 'first'
out[0].r1 = len(r.name)
records[1] = r
e = records.get(1)
if e is None:
    return
before = e.name
e.name = x
out[0].r2 = before == e.name
out[0].r3 = len(before)
out[0].r4 = replaced(e.name, e)
out[0].r5 = len(e.name)
"""
    outside = "def replaced(name, entry):\n    entry.name = 'z'\n    return len(name)"
    with outer(body, "", outside).loaded(target) as loaded:
        assert loaded.run()[:6] == [1, 2, 0, 2, 5, 1]


@TARGETS
def test_strings(target):
    body = """
r = Record(1, 2, 3, 'abc')
out[0].r0 = len(r.name) * 100 + (r.name == 'abc') * 10 + (r.name != 'abcd')
out[0].r1 = r.name.startswith('ab') * 10 + r.name.startswith('b')
out[0].r2 = (r.name[0] == 'a') * 10 + (r.name[w & 15] == 'c')
out[0].r3 = (r.name in ('x', 'abc')) * 10 + (r.name not in ('abc', 'y'))
if r.name:
    out[0].r4 = 1
r.name = ''
if not r.name:
    out[0].r5 = len(r.name) + 5
r.name = 'fifteen letters'
out[0].r6 = len(r.name)
"""
    with outer(body, "w").loaded(target) as loaded:
        assert loaded.run(w=2)[:7] == [311, 10, 11, 10, 1, 5, 15]
