"""Objects whose names, modules and texts are no strings: a probe that uses them is refused in words, not by a crash."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

OUTSIDE = """
import time

class Odd:
    def __init__(self, answer, result=None): self.__dict__.update(answer=answer, result=result)
    def __getattr__(self, name): return self.answer
    def __call__(self, *given): return time.time_ns() if self.result is None else self.result

class Raising:
    def __getattribute__(self, name):
        if name == "__class__": return object.__getattribute__(self, name)
        raise KeyError(name)
    def __call__(self, *given): return 3

class Meta(type):
    __name__ = property(lambda cls: 5)

class Nameless(metaclass=Meta):
    __module__ = 5
    def __repr__(self): return 5
    def limit(self): return 3

def plain(x): return x
plain.__module__ = 5

number, listed, known, raising, nameless = Odd(5), Odd([]), Odd([], 3), Raising(), Nameless()
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("number()", "this calls time.time_ns(), which would run once, at compile time"),
        ("listed()", "this calls time.time_ns(), which would run once, at compile time"),
        ("listed({'a', 'b'})", "this calls time.time_ns(), which would run once, at compile time"),
        ("known(count)", "known() is Python's and runs at compile time, but a u64 is known only at run time"),
        ("nameless.x", "a value has no attribute x"),
        ("count + nameless", "a value here has no text, as __repr__ returned non-string (type int)"),
        ("time.time_ns(number)", "time.time_ns() would run once, at compile time"),
    ],
)
def test_names_that_are_no_strings_are_left_out(source: str, expected: str) -> None:
    """The message says what it can."""
    with pytest.raises(CompileError) as caught:
        build(f"results[0] = {source}", "count", OUTSIDE)
    assert message(caught.value)[0].startswith(expected)


@pytest.mark.parametrize("source", ["known()", "known({'a', 'b'})", "nameless.limit()", "plain(3)", "plain(count - 2)"])
def test_such_objects_are_used_like_others(source: str) -> None:
    """What they compute is known at compile time."""
    assert results(f"results[0] = {source}", outside=OUTSIDE) == [3]
