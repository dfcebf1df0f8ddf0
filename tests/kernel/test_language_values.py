"""Names keep what Python cannot change, strings, bytes and tuples, whatever becomes of the memory that they came from.

Each body runs twice, as a program that Python calls and by CPython itself, and leaves the same record.
"""

from __future__ import annotations

import textwrap
from types import SimpleNamespace
from typing import Any

import pytest

from pyebpf import BPF, CompileError, Struct, array, char, field, s64, u8, u32
from tests.support.needs import needs


class R(Struct):
    s: str = field(char[8], default="orig")
    t: str = field(char[8], default="tttt")
    o: str = field(char[8], default="")
    a: bytes = field(array(u8, 4), default=b"abcd")
    oa: bytes = field(array(u8, 4), default=b"....")
    ss: list[str] = field(array(char[8], 2), default=["one", "two"])
    bb: list[bytes] = field(array(array(u8, 4), 2), default=[b"1111", b"2222"])
    numbers: list[int] = field(array(u32, 3), default=[1, 2, 3])
    n: s64 = 0
    m: s64 = 0


class V(Struct):
    s: str = field(char[8], default="orig")
    n: s64 = 0
    a: bytes = field(array(u8, 4), default=b"abcd")
    ss: list[str] = field(array(char[8], 2), default=["one", "two"])


MODULE = """
from pyebpf import *
from pyebpf import helpers
sm = bpf.hash(key=u32, value=char[8])
am = bpf.array(value=char[8], size=2)
bm = bpf.array(value=array(u8, 4), size=2)
wm = bpf.array(value=array(char[8], 2), size=2)
tm = bpf.hash(key=u32, value=(char[8], s64))
ta = bpf.array(value=(char[8], s64), size=2)
vm = bpf.hash(key=u32, value=V)
seen = bpf.hash(key=char[8], value=u64)
"""
#: Statements, one a line, that CPython runs as well.
BOTH = {
    "a name": 'k = ctx.s; ctx.s = "new"; ctx.o = k; ctx.n = len(k)',
    "swap": "k = ctx.s; ctx.s = ctx.t; ctx.t = k",
    "tuple": 't = (ctx.s, 1); ctx.s = "new"; ctx.o = t[0]',
    "two names at once": 'a, b = ctx.s, ctx.t; ctx.s = "new"; ctx.t = "newer"; ctx.o = a; ctx.n = b == "tttt"',
    "two names, one after the other": 'k = ctx.s; j = k; ctx.s = "new"; ctx.o = j',
    "parameter": 'def f(s):\n    ctx.s = "new"\n    return s\nctx.o = f(ctx.s)',
    "default": 'f = lambda s=ctx.s: s; ctx.s = "new"; ctx.o = f()',
    "keyword default": 'f = lambda *, s=ctx.s: s; ctx.s = "new"; ctx.o = f()',
    "annotated": 'k: char[8] = ctx.s; ctx.s = "new"; ctx.o = k',
    "walrus": 'if (k := ctx.s) == "orig":\n    ctx.s = "new"\nctx.o = k',
    "capture": 'match ctx.s:\n    case k if ctx.n == 0:\n        ctx.s = "new"\n        ctx.o = k',
    "capture in a tuple": 'match (ctx.s, ctx.n):\n    case (k, 0):\n        ctx.s = "new"\n        ctx.o = k',
    "guard that writes": (
        'def g():\n    ctx.s = "new"\n    return 0\n'
        'match (ctx.s, ctx.n):\n    case (k, 0) if g():\n        ctx.n = 5\n    case ("orig", 0):\n        ctx.n = 7'
    ),
    "loop over a tuple": 'for k in (ctx.s, ctx.t):\n    ctx.s = "new"\n    ctx.t = "newer"\n    ctx.o = k',
    "loop over an array": 'for k in ctx.ss:\n    ctx.ss[0] = "new"\n    ctx.ss[1] = "newer"\n    ctx.o = k\n',
    "result": 'def g():\n    k = ctx.s\n    ctx.s = "new"\n    return k\nctx.o = g()',
    "slice": 'k = ctx.s[1:3]; ctx.s = "new"; ctx.o = k',
    "conditional": 'k = ctx.s if ctx.n == 0 else ctx.t; ctx.s = "new"; ctx.o = k',
    "run-time loop": (
        'k = "x"\nfor i in range(3):\n    if i == 1:\n        k = ctx.s\n    if i == 2:\n'
        '        ctx.s = "new"\nctx.o = k'
    ),
    "tuple, then a call": 'def g():\n    ctx.s = "new"\n    return 1\nt = (ctx.s, g()); ctx.o = t[0]',
    "record, then a call": 'def g():\n    ctx.s = "new"\n    return 1\nv = V(s=ctx.s, n=g()); ctx.o = v.s',
    "comparison, then a call": 'def g():\n    ctx.s = "new"\n    return "orig"\nctx.n = ctx.s == g()',
    "chain, then a call": 'def g():\n    ctx.s = "new"\n    return "orig"\nctx.n = "orig" == ctx.s == g()',
    "arguments, then a call": (
        'def g():\n    ctx.s = "new"\n    return 1\ndef f(s, n):\n    return s\nctx.o = f(ctx.s, g())'
    ),
    "byte, then a call": 'def g():\n    ctx.a = b"newx"\n    return 1\nctx.n = ctx.a[g()]',
    "membership, then a call": 'def g():\n    ctx.s = "new"\n    return "orig"\nctx.n = ctx.s in (g(), "zzz")',
    "comprehension, then a call": (
        'def g():\n    ctx.s = "new"\n    return "x"\n'
        "found = tuple(ctx.s if i == 0 else g() for i in (0, 1)); ctx.o = found[0]"
    ),
    "dictionary of known keys": 'k = {"orig": 3, "new": 4}.get(ctx.s, 0); ctx.s = "new"; ctx.n = k',
    "string of a local record": 'r = V(s=ctx.s); k = r.s; r.s = "new"; ctx.o = k',
    "element of an array of strings": 'k = ctx.ss[1]; ctx.ss[1] = "new"; ctx.o = k',
    "element of a local record's array": 'r = V(); k = r.ss[1]; r.ss[1] = "new"; ctx.o = k',
    "element at a run-time index": 'i = ctx.n & 1; k = ctx.ss[i]; ctx.ss[i] = "new"; ctx.o = k',
    "elements swapped": "ctx.ss[0], ctx.ss[1] = ctx.ss[1], ctx.ss[0]",
    "elements swapped by a name": "k = ctx.ss[0]; ctx.ss[0] = ctx.ss[1]; ctx.ss[1] = k",
    "bytes": 'k = ctx.a; ctx.a = b"newx"; ctx.oa = k; ctx.n = k[0]',
    "bytes swapped": "k = ctx.a; ctx.a = ctx.oa; ctx.oa = k",
    "bytes of a local record": 'r = V(); k = r.a; r.a = b"newx"; ctx.oa = k',
    "bytes in an array": 'k = ctx.bb[1]; ctx.bb[1] = b"newx"; ctx.oa = k',
    "bytes of either record": 'r = V(); k = ctx.a if ctx.n == 0 else r.a; ctx.a = b"newx"; ctx.oa = k',
    "bytes in a tuple, then a call": 'def g():\n    ctx.a = b"newx"\n    return 1\nt = (ctx.a, g()); ctx.oa = t[0]',
    "elements are read when their round comes": (
        "def g(x):\n    ctx.numbers[2] = 100\n    return x\nctx.n = sum(g(x) for x in ctx.numbers)"
    ),
    "elements of a tuple of an array": (
        "def g(x):\n    ctx.numbers[2] = 100\n    return x\nt = tuple(g(x) for x in ctx.numbers); ctx.n = t[2]"
    ),
    "the largest and the least of an array": (
        "ctx.numbers[1] = 7; ctx.n = max(ctx.numbers); ctx.numbers[2] = 9; ctx.m = max(ctx.numbers) - min(ctx.numbers)"
    ),
    "a list is that memory": "k = ctx.numbers; ctx.numbers[0] = 99; ctx.n = k[0]; k[1] = 98; ctx.m = ctx.numbers[1]",
}


def program(body: str) -> Any:
    """Return a BPF with the body as the syscall program `p`."""
    needs("program:syscall")
    lines = textwrap.indent(body.replace("; ", "\n"), "    ")
    bpf = BPF()
    text = f"{MODULE}\n@bpf.syscall(R)\ndef p(ctx: R) -> int:\n{lines}\n    return 0\n"
    return bpf, bpf.define(text)


def run(body: str) -> R:
    """Return the record as the compiled body leaves it."""
    bpf, module = program(body)
    with bpf:
        found: R = module.p.run(R()).record
    return found


def plain(cls: type[Struct], **given: Any) -> SimpleNamespace:
    """Return a record for CPython, whose lists are its own."""
    values = {name: getattr(cls(), name) for name in (each.name for each in cls.layout.fields)} | given
    return SimpleNamespace(
        **{name: list(value) if isinstance(value, list) else value for name, value in values.items()}
    )


@pytest.mark.parametrize("body", BOTH.values(), ids=list(BOTH))
def test_a_name_keeps_what_python_keeps(body):
    """The compiled body and CPython leave the same record."""
    ctx = plain(R)
    lines = textwrap.indent(body.replace("; ", "\n"), "    ")
    names = {"V": lambda **given: plain(V, **given), "char": char}
    exec(f"def p(ctx):\n{lines}\n", names)
    names["p"](ctx)
    found = run(body)
    for each in R.layout.fields:
        assert getattr(found, each.name) == getattr(ctx, each.name), each.name


#: With maps, whose entries CPython does not have: the body, and what it leaves.
WITH_MAPS = {
    "string of an array": ('am[1] = "orig"; k = am[1]; am[1] = "new"; ctx.o = k', {"o": "orig"}),
    "string of an array that may be None": (
        'am[1] = "orig"; k = am.get(1)\nif k is None:\n    return 1\nam[1] = "new"; ctx.o = k; ctx.n = len(k)',
        {"o": "orig", "n": 4},
    ),
    "string of a hash": (
        'sm[1] = "orig"; k = sm.get(1)\nif k is None:\n    return 1\nsm[1] = "new"; ctx.o = k',
        {"o": "orig"},
    ),
    "string of an entry that is deleted": (
        'sm[1] = "orig"; k = sm.get(1); del sm[1]\nif k is None:\n    return 1\nctx.o = k; ctx.n = sm.get(1) is None',
        {"o": "orig", "n": 1},
    ),
    "a missing string": ('del sm[2]; k = sm.get(2); sm[2] = "new"\nif k is None:\n    ctx.n = 1', {"n": 1}),
    "None or a string": (
        (
            'k = None; am[0] = "orig"\nif ctx.n == 0:\n    k = am.get(0)\nam[0] = "new"\n'
            "if k is None:\n    return 1\nctx.o = k"
        ),
        {"o": "orig"},
    ),
    "None or a string that is taken out": (
        'k = None; sm[0] = "orig"\nif ctx.n == 0:\n    k = sm.pop(0)\nif k is None:\n    return 1\nctx.o = k',
        {"o": "orig"},
    ),
    "None or a record that is taken out": (
        'k = None; vm[0] = V(s="orig")\nif ctx.n == 0:\n    k = vm.pop(0)\nif k is None:\n    return 1\nctx.o = k.s',
        {"o": "orig"},
    ),
    "the best of a loop": (
        (
            'best = None; sm[0] = "aa"; sm[1] = "orig"\nfor i in range(2):\n    k = sm.get(i)\n'
            '    if k is not None:\n        best = k\nsm[1] = "new"\nif best is None:\n    return 1\nctx.o = best'
        ),
        {"o": "orig"},
    ),
    "nothing is taken out": ('del sm[3]; k = sm.pop(3); sm[3] = "new"\nif k is None:\n    ctx.n = 1', {"n": 1}),
    "strings of a loop over a map": (
        'sm[1] = "orig"\nfor k, v in sm.items():\n    sm[1] = "new"\n    ctx.o = v',
        {"o": "orig"},
    ),
    "element of a value": (
        'wm[0] = ("one", "two"); w = wm[0]; k = w[1]; wm[0] = ("new", "newer"); ctx.o = k; ctx.s = w[1]',
        {"o": "two", "s": "newer"},
    ),
    "bytes of an array": ('bm[0] = b"abcd"; k = bm[0]; bm[0] = b"newx"; ctx.oa = k', {"oa": b"abcd"}),
    "an entry of bytes is that memory": (
        'bm[0] = b"abcd"; e = bm.get(0)\nif e is None:\n    return 1\ne[1] = 120; ctx.oa = bm[0]',
        {"oa": b"axcd"},
    ),
    "tuple of an array": (
        'ta[0] = ("orig", 5); k = ta[0]; ta[0] = ("new", 6); ctx.o = k[0]; ctx.n = k[1]',
        {"o": "orig", "n": 5},
    ),
    "tuple of a hash": (
        (
            'tm[1] = ("orig", 5); e = tm.get(1)\nif e is None:\n    return 1\n'
            'k = e; tm[1] = ("new", 6); a, b = k; ctx.o = a; ctx.n = b'
        ),
        {"o": "orig", "n": 5},
    ),
    "value before the key": (
        (
            'r = V(s="orig")\ndef g():\n    r.s = "new"\n    return 1\nvm[g()] = V(s=r.s); e = vm.get(1)\n'
            "if e is not None:\n    ctx.o = e.s"
        ),
        {"o": "orig"},
    ),
    "string before the key": (
        'def g():\n    ctx.s = "new"\n    return 1\nsm[g()] = ctx.s; e = sm.get(1)\nif e is not None:\n    ctx.o = e',
        {"o": "orig"},
    ),
    "key before the value": (
        'def g():\n    ctx.s = "new"\n    return 7\nseen[ctx.s] += g(); ctx.n = seen.get("orig", 0)',
        {"n": 7},
    ),
    "bytes of a loop": (
        "n = 0\nfor i, b in enumerate(ctx.a):\n    ctx.a[3] = 1\n    n = n * 2 + b\nctx.n = n",
        {"n": ((97 * 2 + 98) * 2 + 99) * 2 + 1},
    ),
    "arguments of add": (
        (
            'def g():\n    ctx.s = "new"\n    return 1\ndel vm[1]; vm.add(1, V(s=ctx.s, n=g())); e = vm.get(1)\n'
            "if e is not None:\n    ctx.o = e.s"
        ),
        {"o": "orig"},
    ),
    "a helper writes": (
        'k = ctx.s; r = V(s=ctx.s); j = r.s; helpers.get_current_comm(r.s, 8); ctx.o = j; ctx.n = r.s == "orig"',
        {"o": "orig", "n": 0},
    ),
}


@pytest.mark.parametrize(("body", "left"), WITH_MAPS.values(), ids=list(WITH_MAPS))
def test_a_name_keeps_what_stood_in_a_map(body, left):
    """A string, bytes or a tuple of an entry, and what is read before a call writes there."""
    found = run(body)
    assert {name: getattr(found, name) for name in left} == left


@pytest.mark.parametrize(
    "body", ["k = ctx.a; k[0] = 1", "def f(b):\n    b[0] = 1\nf(ctx.a)", "r = V(); k = r.a; k[0] += 1"]
)
def test_no_name_changes_bytes(body):
    """A byte is assigned to where the bytes stand; the error says so."""
    bpf, _ = program(body)
    with (
        pytest.raises(
            CompileError, match=r"the u8\[4\] .*in a variable cannot be changed.* assign to a byte of the field itself"
        ),
        bpf,
    ):
        pass


def test_a_byte_is_assigned_where_it_stands():
    """Of a context, a local record and an array of bytes."""
    found = run(
        "r = V(); k = r.a; r.a[0] = 120; ctx.a = r.a; ctx.oa = k; ctx.bb[1][2] = 120; i = ctx.n & 3; ctx.bb[0][i] = 121"
    )
    assert (found.a, found.oa, found.bb) == (b"xbcd", b"abcd", [b"y111", b"22x2"])
