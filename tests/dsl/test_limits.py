"""What a probe can't hold or Python would count otherwise: refused at its place, with what to write instead."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

TEXT = (
    "'é' is not ASCII, and the strings of a probe are bytes, not characters: write .encode() behind it for "
    "its bytes, or "
    "compute this above the probe"
)
SINGLETON = (
    "`case {0}` is for conditions and fields of type bool, and {1} is neither: write `case {0:d}` to compare the number"
)


@pytest.mark.parametrize(
    "body", ['results[0] = len("é")', 's = "é"\nresults[0] = len(s)', 'x = "é"[0]', 'x = "é"[0:1]']
)
def test_a_text_that_is_not_ascii_is_not_counted(body):
    with pytest.raises(CompileError) as caught:
        build(body)
    assert message(caught.value)[0] == TEXT


def test_texts_whose_bytes_are_characters_are_counted():
    """So are the bytes of others."""
    body = 'results[0] = len("ab")\nresults[1] = len("é".encode())\nresults[2] = "abc"[1:] == "bc"'
    assert results(body) == [2, 2, 1]


@pytest.mark.parametrize(
    ("body", "number", "what"),
    [
        ("match count:\n    case True: pass", True, "a u64"),
        ("match delta:\n    case False: pass", False, "an s64"),
        ("match delta:\n    case 3 | True: pass", True, "an s64"),
        ("match (count, delta):\n    case (1, True): pass", True, "an s64"),
    ],
)
def test_a_number_is_never_true_itself(body, number, what):
    """Python compares by `is`."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta: s64")
    assert message(caught.value)[0] == SINGLETON.format(number, what)


BITS = "a probe computes in 64 bits, and Python with 8,192 for it at most"
ROUNDS = "10,000,000,000 iterations are too many to run at compile time, at most 1,000,000"
LONG = "10,000,000,000 elements are too many to keep at compile time, at most 1,000,000"
FORMAT = "a string can't be formatted at run time: emit a record with the values, and format in user space"
PAIRS = "a = (a, a)\n" * 40

#: Statements, and how the message begins.
TOO_MUCH = [
    ("results[0] = 9**9**9 & 1", f"this number would have some 1,162,261,467 bits: {BITS}"),
    ("results[0] = pow(9, 9**9) & 1", f"this number would have some 1,162,261,467 bits: {BITS}"),
    ("results[0] = (1 << 10**10) & 1", f"this number would have some 10,000,000,001 bits: {BITS}"),
    ("results[0] = len([9**9**9 for x in (1,)])", "this number would have some"),
    ("results[0] = delta + 10**5000", "this number would have some 15,000 bits"),
    ("a = 3\n" + "a = a * a\n" * 40 + "results[0] = a & 1", "this number would have some"),
    ("results[0] = HUGE", "this number has 16,610 bits"),
    ("results[0] = delta in HUGES", "a number here is too large"),
    ("x = [x for x in range(10**10)]", ROUNDS),
    ("x = {x: 1 for x in range(10**10)}", ROUNDS),
    ("results[0] = sum(range(10**10))", ROUNDS),
    ("results[0] = sum(x for x in range(10**10))", ROUNDS),
    ("results[0] = sum(1 for x in range(10**5) for y in range(10**5))", ROUNDS),
    ("results[0] = sorted(range(10**10))[0]", ROUNDS),
    ("results[0] = [*range(10**10)][0]", ROUNDS),
    ("a, b = range(10**10)", ROUNDS),
    ("for i in unroll(range(10**10)): pass", ROUNDS),
    ('x = len("a" * 10**10)', LONG),
    ('x = len("a".ljust(10**10))', LONG),
    ("x = len(bytes(10**10))", LONG),
    ("x = len([0] * 10**10)", LONG),
    ("x = WIDE + WIDE", "1,200,000 elements are too many to keep"),
    (f"a = (1,)\n{PAIRS}results[0] = a == a", "98,303 elements are too many in a tuple"),
    (f"a = (delta,)\n{PAIRS}results[0] = a == a", "1,535 elements are too many in a tuple of values known only"),
    ("results[0] = delta in MANY", "20,000 values are too many to be compared with at run time, at most 1,024"),
    ("results[0] = delta in set(MANY)", "20,000 values are too many to be compared with at run time"),
    ("results[0] = endless(5)", "computing this at compile time, a function called itself too often: write a loop"),
    ('x = f"{delta}"', FORMAT),
    ('x = "%d" % delta', FORMAT),
    ('x = "%d %d" % (delta, 1)', FORMAT),
]
OUTSIDE = """
HUGE = 10**5000
WIDE = "a" * 600_000
HUGES = (1, HUGE)
MANY = tuple(range(0, 60000, 3))

def endless(x):
    return endless(x + 1)
"""


@pytest.mark.parametrize(("body", "expected"), TOO_MUCH)
def test_what_would_take_for_ever_is_refused_at_once(body, expected):
    with pytest.raises(CompileError) as caught:
        build(body, "delta", OUTSIDE)
    words, under = message(caught.value)
    assert words.startswith(expected)
    assert under


def test_what_is_large_but_held_is_computed():
    """Ranges without going through them, tables of many rows, and numbers of some hundred digits."""
    body = """
results[0] = 5 in range(10**10)
results[1] = len(range(10**10)) >> 30
results[2] = 10**1000 % 97
results[3] = len(ROWS)
results[4] = sum(x for x in range(1000)) & 255
results[5] = pow(9, 9**9, 7)
results[6] = delta in tuple(range(-1024, 0))
"""
    assert results(body, outside="ROWS = ((1, 2),) * 30000") == [1, 9, 10**1000 % 97, 30000, 44, 1, 1]


SURROGATE = "'\\ud800' is not valid UTF-8: '\\ud800' is half of a surrogate pair"


@pytest.mark.parametrize(
    "body",
    [
        r'x = comm() == "\ud800"',
        r'x = comm().startswith("\ud800")',
        r'x = comm() in ("a", "\ud800")',
        r'opens["\ud800"] += 1',
    ],
)
def test_a_text_that_has_no_bytes_is_refused(body):
    with pytest.raises(CompileError) as caught:
        build(body)
    assert message(caught.value)[0] == SURROGATE


#: Classes of the author's, what is done with one, and what its message must say.
AUTHORS = """
class Repr:
    def __repr__(self): raise KeyError(1)

class Class:
    @property
    def __class__(self): raise KeyError(1)

class Elements(tuple):
    def __iter__(self): raise KeyError(1)

class Length(tuple):
    def __len__(self): raise KeyError(1)

class Attributes:
    def __getattribute__(self, name): raise KeyError(1)

class Exits:
    @property
    def number(self): raise SystemExit(3)

class Silent(Exception):
    def __str__(self): raise KeyError(1)

def leave():
    raise SystemExit(3)

def silent():
    raise Silent
"""
USES = ["results[0] = delta + k", "results[0] = k", "results[0] = delta in k", "results[0] = k == delta"]
USES += [
    "a, b = k\nresults[0] = a",
    "results[0] = k.v",
    "for i in k:\n    results[0] += i",
    "results[0] = k[delta & 1]",
]


@pytest.mark.parametrize("name", ["Repr()", "Class()", "Elements((1, 2))", "Length((1, 2))", "Attributes()"])
@pytest.mark.parametrize("body", USES)
def test_objects_that_raise_are_errors_of_their_place(body, name):
    """Whatever the compiler asks them, and never anything but a CompileError with a place."""
    try:
        build(body, "delta", f"{AUTHORS}\nk = {name}")
    except CompileError as error:
        assert message(error)[1]  # noqa: PT017 - some uses of some of them are none of its business


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "results[0] = delta + k",
            "Repr.__repr__() of a value here raised KeyError: 1: a probe is given plain numbers",
        ),
        ("results[0] = leave()", "computing this at compile time raised SystemExit: 3"),
        ("results[0] = Exits().number", "computing this at compile time raised SystemExit: 3"),
        ("results[0] = silent()", "computing this at compile time raised Silent"),
    ],
)
def test_what_the_authors_code_raises_is_said(body, expected):
    with pytest.raises(CompileError) as caught:
        build(body, "delta", f"{AUTHORS}\nk = Repr()")
    assert message(caught.value)[0].startswith(expected)


INTEGERS = """
import enum

class Own(int):
    def __add__(self, other): return -5
    __radd__ = __add__

class Index(int):
    def __index__(self): return 77

class Named(int):
    pass

class Level(enum.IntEnum):
    HIGH = 3

class Flags(enum.IntFlag):
    X = 1
    Y = 2
"""


@pytest.mark.parametrize(("name", "method"), [("Own", "__add__"), ("Index", "__index__")])
@pytest.mark.parametrize("body", ["results[0] = delta + k", "results[0] = k", "results[0] = delta in (k, 1)"])
def test_integers_that_compute_otherwise_are_refused(body, name, method):
    with pytest.raises(CompileError) as caught:
        build(body, "delta", f"{INTEGERS}\nk = {name}(5)")
    words, under = message(caught.value)
    assert words.startswith(f"{name} is an int with its own {method}(), which a program cannot call: give the number")
    assert under == "k"


def test_other_subclasses_of_int_are_integers():
    body = (
        "results[0] = delta + Named(4)\nresults[1] = delta + Level.HIGH + 9\nresults[2] = count & (Flags.X | Flags.Y)"
    )
    assert results(body, outside=INTEGERS) == [1, 9, 1]
