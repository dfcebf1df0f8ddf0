"""Names: what they stand for, when they have a value, and whether it is known while compiling."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message

#: Statements of a probe whose parameters are count, a u64, and delta, an s64; what stands before it in its file; the
#: message; what its carets stand under.
CASES = [
    ("x = missing", "", "missing is not defined", "missing"),
    ("x = coun", "", "coun is not defined (did you mean count?)", "coun"),
    (
        """
if count > 3:
    x = 1
results[0] = x
""",
        "",
        "x is assigned on one path only (line 5): assign it on every path to here",
        "x",
    ),
    (
        """
if delta > 3 and (m := 5) < 10:
    pass
results[0] = m
""",
        "",
        "m is assigned on one path only (line 4): assign it on every path to here",
        "m",
    ),
    (
        """
for i in range(3):
    pass
results[0] = i
""",
        "",
        "i is assigned on one path only (line 4): assign it on every path to here",
        "i",
    ),
    (
        """
for i in range(3):
    y = z
    z = i
""",
        "",
        "z has no value on the first round of the loop: assign it before",
        "z",
    ),
    (
        """
x = y
y = 3
""",
        "",
        "y has no value here: assign it first",
        "y",
    ),
    (
        "limit += 1",
        "limit = 3",
        (
            "limit is assigned in this function, which makes it a local name, and has no value here: a "
            "probe can't assign to an outer name; keep the value in a map"
        ),
        "limit",
    ),
    (
        "limit = limit + 1",
        "limit = 3",
        (
            "limit is assigned in this function, which makes it a local name, and has no value here: a "
            "probe can't assign to an outer name; keep the value in a map"
        ),
        "limit",
    ),
    (
        """
x = count
x = b"a"
""",
        "",
        (
            "x is a run-time variable since line 4, where it is assigned a u64; b'a' is known only while "
            "compiling: give it a name of its own"
        ),
        'x = b"a"',
    ),
    (
        """
x = b"a"
if count > 3:
    x = b"b"
""",
        "",
        (
            "x is a run-time variable since line 5, where it is assigned under the run-time `if` of line "
            "5; b'a' is known only while compiling: give it a name of its own"
        ),
        'x = b"a"',
    ),
    (
        """
x = None
if count > 3:
    x = comm
results[0] = x
""",
        "",
        "x may stand for None or comm without its parentheses here: use a name for each",
        "x",
    ),
    (
        """
while_names = b"a"
for i in range(3):
    while_names = b"b"
""",
        "",
        (
            "while_names is a run-time variable since line 5, where it is assigned in the run-time `for` "
            "of line 5; b'a' is known only while compiling: give it a name of its own"
        ),
        'while_names = b"a"',
    ),
    (
        """
for name in (b"a", b"b"):
    if delta > 3: break
    k = name
    opens[k] += 1
""",
        "",
        (
            "k is a run-time variable since line 4, where it is assigned in the `for` of line 4, which a "
            "run-time condition leaves; b'a' is known only while compiling: give it a name of its own"
        ),
        "k = name",
    ),
    (
        """
match count:
    case 1: x = b"a"
    case _: x = b"b"
""",
        "",
        (
            "x is a run-time variable since line 4, where it is assigned under the run-time `match` of "
            "line 4; b'a' is known only while compiling: give it a name of its own"
        ),
        'x = b"a"',
    ),
    (
        """
x = delta
if delta:
    x = count
""",
        "",
        "x is s64 on line 4 and u64 here: annotate it, `x: u64 = …` or `x: s64 = …`",
        "x = count",
    ),
    (
        """
x = -1
x = count
""",
        "",
        "x is s64 on line 4 and u64 here: annotate it, `x: u64 = …` or `x: s64 = …`",
        "x = count",
    ),
    ("x: u64 = -1", "", "-1 does not fit u64: it holds 0 to 18446744073709551615", "x: u64 = -1"),
    ("x: u8 = 300", "", "300 does not fit u8: it holds 0 to 255", "x: u8 = 300"),
    ('x: u8 = "a"', "", "x is annotated as u8, and 'a' is no integer", 'x: u8 = "a"'),
    (
        """
x: u64 = count
x: s64 = delta
""",
        "",
        "x is annotated as u64 and as s64: choose one",
        "s64",
    ),
    (
        """
x: "u64" = count
x: "s64" = delta
""",
        "",
        "x is annotated as u64 and as s64: choose one",
        '"s64"',
    ),
    (
        """
if delta > 3:
    x = Record(1, 2, "a")
else:
    x = Pair(2, 3)
events.emit(x)
""",
        "",
        "x may stand for the record Record or the record Pair here: use a name for each",
        "x",
    ),
    (
        """
if delta > 3:
    x = Record(1, 2, "a")
else:
    x = delta
events.emit(x)
""",
        "",
        "x may stand for the record Record or an s64 here: use a name for each",
        "x",
    ),
    (
        """
x = Record(1, 2, "a")
before = x
for i in range(3):
    events.emit(before)
    before = x
    x = Record(i, 3, "b")
""",
        "",
        (
            "before would be another name for a record that the loop may make anew: make a record of its own, "
            "Record(…), of the fields"
        ),
        "before = x",
    ),
    (
        """
x = Record(1, 2, "a")
for key, value in records.items():
    x = Record(value.at, 3, "b")
events.emit(x)
""",
        "",
        (
            "x would stand for a record of the loop's body, which runs as a function of its own: make the record "
            "before the loop, and assign its fields here"
        ),
        'x = Record(value.at, 3, "b")',
    ),
    (
        """
x = 1
for i in range(8):
    x = i
for j in unroll(range(x)): pass
""",
        "",
        (
            "unroll() needs what is known while compiling, not a range with run-time ends; x is a "
            "run-time variable since line 5, where it is assigned in the run-time `for` of line 5"
        ),
        "unroll(range(x))",
    ),
    ("del count", "", "only an entry of a map can be deleted: `del m[k]`", "count"),
    ("del opens", "", "only an entry of a map can be deleted: `del m[k]`", "opens"),
    ("del bpf.maps[0]", "", "bpf.maps is no map: `del` deletes an entry of a map", "bpf.maps[0]"),
    ("a, b = 1, 2, 3", "", "3 values can't be unpacked into 2 names", "a, b"),
    ("a, b, *c = 1,", "", "1 values can't be unpacked into 3 names", "a, b, *c"),
    ("a, b = count", "", "a u64 can't be unpacked into 2 names", "a, b"),
    ("a, b = 5", "", "computing this while compiling raised TypeError: 'int' object is not iterable", "a, b = 5"),
]


@pytest.mark.parametrize(("body", "outside", "expected", "under"), CASES)
def test_refused(body: str, outside: str, expected: str, under: str) -> None:
    """What is outside the language is refused at its place, and the message says what to write."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta", outside)
    assert message(caught.value) == (expected, under)
