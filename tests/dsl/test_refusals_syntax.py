"""Syntax that the language does not have."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message

#: Statements of a probe whose parameters are count, a u64, and delta, an s64; what stands before it in its file; the
#: message; what its carets stand under.
CASES = [
    (
        "def f(): yield 1",
        "",
        "a probe can't yield: write a plain function",
        "def f(): yield 1",
    ),
    (
        "async def f(): pass",
        "",
        "a function can't be defined inside a probe: define it outside, without `async`",
        "async def f(): pass",
    ),
    ("class A: pass", "", "a class can't be defined inside a probe: define the Struct outside", "class A: pass"),
    (
        "global x",
        "",
        "a global name can't be assigned by a probe, which runs in the kernel: keep the value in a map",
        "global x",
    ),
    (
        "raise ValueError",
        "",
        "there are no exceptions in a probe: `return`, or emit a record that says what happened",
        "raise ValueError",
    ),
    (
        """
try:
    pass
finally:
    pass
""",
        "",
        "there are no exceptions in a probe: leave out `try`; a failed read gives zeros, a missing entry is None",
        "try:",
    ),
    (
        """
try:
    pass
except* ValueError:
    pass
""",
        "",
        "there are no exceptions in a probe: leave out `try`; a failed read gives zeros, a missing entry is None",
        "try:",
    ),
    ("assert count", "", "there are no exceptions in a probe: write `if not …: return`", "assert count"),
    ("import os", "", "an import can't stand inside a probe: import at the top of the file", "import os"),
    (
        "from os import path",
        "",
        "an import can't stand inside a probe: import at the top of the file",
        "from os import path",
    ),
    ("with pid(): pass", "", "an s64 is nothing to use with `with`", "pid()"),
    (
        'with open("x") as f: pass',
        "",
        (
            "`with` has nothing to hold in a probe, where Python's own context managers run nowhere: "
            "write the statements alone"
        ),
        'open("x")',
    ),
    ("with records: pass", "", "the map records is nothing to use with `with`", "records"),
    (
        "x = [i for i in range(count)]",
        "",
        (
            "a comprehension over what only each event knows can't be built: write a `for` loop; count is "
            "a run-time variable since line 3, where it is a parameter"
        ),
        "[i for i in range(count)]",
    ),
    (
        "x = {i for i in range(count)}",
        "",
        (
            "a comprehension over what only each event knows can't be built: write a `for` loop; count is "
            "a run-time variable since line 3, where it is a parameter"
        ),
        "{i for i in range(count)}",
    ),
    (
        "x = {i: 1 for i in range(count)}",
        "",
        (
            "a comprehension over what only each event knows can't be built: write a `for` loop; count is "
            "a run-time variable since line 3, where it is a parameter"
        ),
        "{i: 1 for i in range(count)}",
    ),
    (
        "x = sum(i for i in range(count))",
        "",
        (
            "a comprehension over what only each event knows can't be built: write a `for` loop; count is "
            "a run-time variable since line 3, where it is a parameter"
        ),
        "(i for i in range(count))",
    ),
    (
        "x = [count]",
        "",
        (
            "a list of run-time values can't be built: use a tuple, a Struct, or a map; count is a run-time "
            "variable since line 3, where it is a parameter"
        ),
        "[count]",
    ),
    (
        "x = {count}",
        "",
        (
            "a set of run-time values can't be built: write `x in (a, b)`, or use a map; count is a "
            "run-time variable since line 3, where it is a parameter"
        ),
        "{count}",
    ),
    (
        "x = {1: count}",
        "",
        (
            "a dictionary of run-time values can't be built: use a map, `bpf.hash(key=…, value=…)`; count "
            "is a run-time variable since line 3, where it is a parameter"
        ),
        "{1: count}",
    ),
    (
        'x = f"{count}"',
        "",
        (
            "a string can't be formatted on each event: emit a record with the values, and format in user "
            "space; count is a run-time variable since line 3, where it is a parameter"
        ),
        'f"{count}"',
    ),
    ("x = (yield)", "", "a probe can't yield: emit a record to a ring buffer", "yield"),
    ("yield 3", "", "a probe can't yield: emit a record to a ring buffer", "yield 3"),
    (
        "x = yield from count",
        "",
        (
            "a probe can't yield: emit a record to a ring buffer; count is a run-time variable since line "
            "3, where it is a parameter"
        ),
        "yield from count",
    ),
    (
        "x = [*count]",
        "",
        (
            "`*` can't spread values here: write each one; count is a run-time variable since line 3, "
            "where it is a parameter"
        ),
        "*count",
    ),
    (
        "x = (*count, 1)",
        "",
        (
            "`*` can't spread values here: write each one; count is a run-time variable since line 3, "
            "where it is a parameter"
        ),
        "*count",
    ),
    ("opens[1:2] = 3", "", "a slice can't be assigned on each event: assign single elements", "1:2"),
    ("table[1:2] += 3", "", "a slice can't be assigned on each event: assign single elements", "1:2"),
    ("del opens[1:2]", "", "a slice can't be deleted on each event: delete single entries", "1:2"),
    ("x = comm()[::2]", "", "a slice of a string takes every byte: leave the step out", "comm()[::2]"),
    (
        "x = comm()[-3:]",
        "",
        "the ends of a string's slice count from its beginning; for its end there is .endswith()",
        "comm()[-3:]",
    ),
    (
        'x = "abc"[1:count]',
        "",
        (
            "a slice can't be taken on each event: index single elements; count is a run-time variable "
            "since line 3, where it is a parameter"
        ),
        "1:count",
    ),
    (
        """
match count:
    case [1, 2]: pass
""",
        "",
        "`match` in a probe compares with literals: a sequence pattern can't be used; compare the elements with `if`",
        "[1, 2]",
    ),
    (
        """
match count:
    case [1, *rest]: pass
""",
        "",
        "`match` in a probe compares with literals: a sequence pattern can't be used; compare the elements with `if`",
        "[1, *rest]",
    ),
    (
        """
match count:
    case {1: 2}: pass
""",
        "",
        "`match` in a probe compares with literals: a mapping pattern can't be used; look the key up with `m.get(k)`",
        "{1: 2}",
    ),
    (
        """
match count:
    case Record(): pass
""",
        "",
        "`match` in a probe compares with literals: a class pattern can't be used; compare the fields with `if`",
        "Record()",
    ),
    (
        """
match count:
    case 1 | 2 as x: pass
    case _: pass
results[0] = x
""",
        "",
        "x is assigned on one path only (line 5): assign it on every path to here",
        "x",
    ),
    (
        "[counts.get(i) for i in range(3)]",
        "",
        "a comprehension alone builds what nothing uses: write a `for` loop",
        "[counts.get(i) for i in range(3)]",
    ),
    ('"about this probe"; "there"', "", "a string alone has no effect: write a comment, `# …`", '"there"'),
    ("count", "", "this expression has no effect: assign it, or leave it out", "count"),
    ("count == 3", "", "this comparison has no effect: write `=` to assign", "count == 3"),
    ("...", "", "`...` has no meaning in a probe: write `pass`", "..."),
    ("x = ...", "", "`...` has no meaning in a probe: write `pass`", "..."),
    (
        """
if count:
    import os
""",
        "",
        "an import can't stand inside a probe: import at the top of the file",
        "import os",
    ),
    (
        """
for x in range(10):
    pass
else:
    pass
""",
        "",
        "`else` of a loop can't be used in a probe: note in a local whether the loop was left by `break`",
        "pass",
    ),
    (
        """
while delta > 0:
    pass
else: pass
""",
        "",
        "`else` of a loop can't be used in a probe: note in a local whether the loop was left by `break`",
        "pass",
    ),
    (
        "x = [[n for n in (1, 2)], (m := 3)]; y = [k := 2 for _ in (1,)]",
        "",
        "`:=` inside a comprehension can't bind a name of the probe: write a `for` loop",
        "k := 2",
    ),
    ("for *a, b in ((1, 2),): pass", "", "the target of a `for` in a probe is a name, or a tuple of names", "*a"),
    ("(a, b, *c) = (delta,)", "", "1 values can't be unpacked into 3 names", "(a, b, *c)"),
]


@pytest.mark.parametrize(("body", "outside", "expected", "under"), CASES)
def test_refused(body: str, outside: str, expected: str, under: str) -> None:
    """What is outside the language is refused at its place, and the message says what to write."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta", outside)
    assert message(caught.value) == (expected, under)
