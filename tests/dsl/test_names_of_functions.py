"""Names of comprehensions, lambdas and closures mean in a probe what they mean to Python."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dsl.test_meaning import results

OUTSIDE = """
def adder(n):
    return lambda k: n + k

def doubler(n):
    m = n * 2
    def inner(k):
        return m + k
    return inner

def both(n):
    return lambda: n, lambda k: n - k

def deep(n):
    return adder(n + 1)

def total(x):
    return sum(x for x in (x, 1))
"""

#: What Python computes of these with count 5, a probe computes, too.
SAME = [
    # A comprehension's first iterable is evaluated outside it.
    "q = count\nresults[0] = sum(q for q in (q, q))",
    "q = 3\nresults[0] = sum(q for q in range(q))",
    "q = 3\nresults[0] = len([q for q in (q, q + 1)])",
    "q = 4\nresults[0] = tuple(q for q in range(q))[3]",
    "q = 4\nresults[0] = {q: 1 for q in range(q)}[3]",
    "q = count\nresults[0] = sum(sum(q for q in (q, q)) for q in (q, 1))",
    "q = 3\nresults[0] = sum(w + q for w in (count, q) for q in (w, count))",
    "q = count\nresults[0] = any(q == 6 for q in (q, q + 1))",
    "results[0] = total(count) * 10 + total(3)",
    # Lambdas in it have their own names.
    "results[0] = sum(q for q in ((lambda w: w)(count), 2))",
    "results[0] = sum((lambda w: w + q)(q) for q in (count, 2))",
    "w = 3\nresults[0] = sum(q for q in ((lambda w=w: w + count)(), 2))",
    # Closures outlive the function that made them.
    "results[0] = adder(count)(1)",
    "f = adder(count)\ng = adder(7)\nresults[0] = f(1) * 100 + g(2)",
    "f = doubler(count)\nfor i in range(3):\n    results[0] += f(i)",
    "for i in range(3):\n    results[0] += doubler(i)(count)",
    "a, b = both(count)\nresults[0] = a() * 100 + b(1)",
    "results[0] = deep(count)(1)",
    "def make(n):\n    return lambda k: n + k\nresults[0] = make(count)(1)",
    "f = adder(count)\nif count > 3:\n    results[1] = f(2)\nresults[0] = f(1)",
    # Conditions are numbers.
    "results[0] = bool(count).bit_count() + (count < 3).bit_length() + (not count).bit_count()",
]


@pytest.mark.parametrize("body", SAME)
def test_it_means_what_it_means_to_python(body: str) -> None:
    """The probe's numbers are those of Python."""
    python: dict[str, Any] = {"count": 5, "results": [0] * 16}
    exec(f"{OUTSIDE}\n{body}", python)
    found = results(body, outside=OUTSIDE)
    assert found == python["results"][: len(found)]
    assert not any(python["results"][len(found) :])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{1: 10, 255: 30}.get(s8(delta), 4)", 4),
        ("{1: 10, -3: 30, 1000: 5}.get(s8(delta), 4)", 30),
        ("{255: 3}.get(s8(delta), 4)", 4),
        ("{5: 3, 70000: 9}.get(u16(count), 4)", 3),
    ],
)
def test_keys_that_a_type_cannot_hold_are_never_found(source: str, expected: int) -> None:
    """A dictionary may have them, as Python's may."""
    assert results(f"results[0] = {source}") == [expected]
