"""Iterators over an array that the body changes: each element is read in its own iteration, as Python reads it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.dsl.test_meaning import results

HELPERS = """
from pyebpf.types import Struct, array, field, s64

class Account(Struct):
    arr: tuple = field(array(s64, 4), default=(3, 2, 5, 1))
"""
BODY = """k = 1
{loop}
    results[0] = results[0] * 3 + e
    a.arr[1] = e + 4
    a.arr[2] += 3
    k += 1"""
LOOPS = [
    "for e in reversed(a.arr):",
    "for i, e in enumerate(a.arr, start=5):",
    "for i, e in enumerate(a.arr, k):",
    "for i, e in enumerate(reversed(a.arr)):",
    "for x, e in zip((1, 2, 3), reversed(a.arr)):",
    "for e, x in zip(reversed(a.arr), (1, 2, 3)):",
    "for i, (e, x) in enumerate(zip(a.arr, a.arr)):",
    "for (i, x), e in zip(enumerate(a.arr), a.arr):",
    "for x, e in zip(*(a.arr, a.arr)):",
    "for e in (x + 1 for x in a.arr):",
    "for e in (x + k for x in a.arr):",
    "for e in (x + k for x in (1, 2, 3)):",
    "for e in (x * y for x in reversed(a.arr) for y in (1, 2)):",
    "for x, e in zip(a.arr, (x * 2 for x in a.arr)):",
    "for i, e in enumerate(x * 2 for x in a.arr):",
    "for e in (x + y for x, y in zip(a.arr, (y + i for i, y in enumerate(a.arr)))):",
    "for e in tuple(reversed(a.arr)):",
    "for e in [x + 1 for x in a.arr]:",
]


def by_python(body: str) -> list[int]:
    """What CPython leaves in `results`, as `tests.dsl.test_meaning.results` gives it."""
    found = [0] * 16
    exec(body, {"a": SimpleNamespace(arr=[3, 2, 5, 1]), "results": found})
    while found and not found[-1]:
        found.pop()
    return found


@pytest.mark.parametrize("loop", LOOPS)
def test_each_element_is_read_in_its_iteration(loop: str) -> None:
    """A loop whose body changes the array leaves what Python leaves."""
    body = BODY.format(loop=loop)
    assert results("a = Account()\n" + body, outside=HELPERS) == by_python(body)


def test_a_function_that_changes_the_array() -> None:
    """A generator that calls a function changes the array between the elements that enclosing iterators take."""
    body = """def bump(x):
    a.arr[3] += x
    return x
results[0] = sum(bump(x) * i for i, x in enumerate(a.arr))
results[1] = a.arr[3]
results[2] = sum(x for x in (bump(y) + a.arr[3] for y in reversed(a.arr)))"""
    assert results("a = Account()\n" + body, outside=HELPERS) == by_python(body)
