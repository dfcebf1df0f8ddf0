"""Loops."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message

#: Statements of a probe whose parameters are count, a u64, and delta, an s64; what stands before it in its file; the
#: message; what its carets stand under.
CASES = [
    (
        "for x in events: pass",
        "",
        "a `for` over events: the kernel walks hashes and arrays only",
        "events",
    ),
    (
        "for x in count: pass",
        "",
        (
            "a u64 can't be iterated over on each event: a `for` in a probe goes over range(…), over a map, or over a "
            "tuple, list or dict.items() known while compiling; count is a run-time variable since line "
            "3, where it is a parameter"
        ),
        "count",
    ),
    (
        'for x in "abc": pass',
        "",
        "a `for` in a probe goes over range(…), over a map, or over a tuple, list or dict.items(), not over 'abc'",
        '"abc"',
    ),
    (
        "for x in {1, 2}: pass",
        "",
        "a set has no order, so the code would differ from run to run: use a tuple, or sorted(…)",
        "{1, 2}",
    ),
    (
        "for x in 5: pass",
        "",
        "a `for` in a probe goes over range(…), over a map, or over a tuple, list or dict.items(), not over 5",
        "5",
    ),
    (
        "for i in range(count): pass",
        "",
        "range() needs a bound that can be proved, of at most 8388608 rounds: write range(min(n, 64)), or test n first",
        "range(count)",
    ),
    (
        "for i in range(1 << 24): pass",
        "",
        (
            "range() needs a bound that can be proved, of at most 8388608 rounds (here up to 16777216 "
            "rounds): write range(min(n, 64)), or test n first"
        ),
        "range(1 << 24)",
    ),
    ("for i in range(0, 8, 0): pass", "", "the step of range() must not be zero", "range(0, 8, 0)"),
    (
        "for i in range(0, 8, count): pass",
        "",
        "the step of range() must be known while compiling",
        "range(0, 8, count)",
    ),
    (
        "for i in range(): pass",
        "",
        "range() takes one to three numbers: range(stop), range(start, stop), range(start, stop, step)",
        "range()",
    ),
    (
        "for i in range(1, 2, 3, 4): pass",
        "",
        "range() takes one to three numbers: range(stop), range(start, stop), range(start, stop, step)",
        "range(1, 2, 3, 4)",
    ),
    ("for i in range(*(1, 2)): pass", "", "`*` can't spread values here: write each one", "*(1, 2)"),
    ("for i in range(comm()): pass", "", "comm() is no number", "range(comm())"),
    ("for a, b in range(3): pass", "", "the numbers of range() go to one name", "a, b"),
    ("for a, b in ((1, 2, 3),): pass", "", "3 values can't be unpacked into 2 names", "a, b"),
    (
        "for a, b in (1, 2): pass",
        "",
        "computing this while compiling raised TypeError: 'int' object is not iterable",
        "a, b",
    ),
    ("for table[0] in (1, 2): pass", "", "the target of a `for` in a probe is a name, or a tuple of names", "table[0]"),
    (
        "for i in unroll(range(count)): pass",
        "",
        (
            "unroll() needs what is known while compiling, not a range with run-time ends; count is a "
            "run-time variable since line 3, where it is a parameter"
        ),
        "unroll(range(count))",
    ),
    (
        "for i in unroll(count): pass",
        "",
        (
            "unroll() needs what is known while compiling, not a u64; count is a run-time variable since "
            "line 3, where it is a parameter"
        ),
        "unroll(count)",
    ),
    (
        "for i in unroll(range(3), 4): pass",
        "",
        "unroll() takes one iterable: `for i in unroll(range(4)):`",
        "unroll(range(3), 4)",
    ),
    (
        "for i in unroll(range(5000)): pass",
        "",
        "more than 4096 rounds can't be written out: use `for … in range(n)`",
        "unroll(range(5000))",
    ),
    (
        """
while count:
    pass
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "count",
    ),
    (
        """
while True:
    pass
""",
        "",
        ("this `while` has no way out: leave it by `break` or `return`, or write a test that fails"),
        "True",
    ),
    (
        """
while delta > 0:
    delta -= 1
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "delta > 0",
    ),
    (
        """
n = 10
while n > 0:
    n += 1
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "n > 0",
    ),
    (
        """
n = 10
while n > 0:
    if delta > 3: continue
    n -= 1
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "n > 0",
    ),
    (
        """
n = 10
while n > 0:
    if delta > 3: n -= 1
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "n > 0",
    ),
    (
        """
n = 10
while n > 0:
    n -= delta
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "n > 0",
    ),
    (
        """
n, m = 0, 10
while n < m:
    n += 1
    m += 1
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "n < m",
    ),
    (
        """
n = 1
while n != 10:
    n += 2
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "n != 10",
    ),
    (
        "while (n := 3) > 2: pass",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "(n := 3) > 2",
    ),
    (
        """
n = 5
while n != 3:
    n += 1
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "n != 3",
    ),
    (
        """
n = delta
while n != 0:
    n >>= 1
""",
        "",
        (
            "nothing shows that this `while` ends: write `for i in range(n):` with the most rounds there "
            "can be, and `if not …: break`"
        ),
        "n != 0",
    ),
    (
        """
for x in (1, 2, 3):
    if x == delta: break
results[0] = x
""",
        "",
        (
            "x was the target of an unrolled loop, and which round was its last is known on each event "
            "only: assign what you need to another name inside the loop"
        ),
        "x",
    ),
    (
        """
if delta > 0:
    for x in (1, 2): pass
results[0] = x
""",
        "",
        (
            "x was the target of an unrolled loop, and which round was its last is known on each event "
            "only: assign what you need to another name inside the loop"
        ),
        "x",
    ),
]


@pytest.mark.parametrize(("body", "outside", "expected", "under"), CASES)
def test_refused(body: str, outside: str, expected: str, under: str) -> None:
    """What is outside the language is refused at its place, and the message says what to write."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta", outside)
    assert message(caught.value) == (expected, under)
