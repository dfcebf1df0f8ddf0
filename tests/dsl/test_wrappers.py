"""Functions under `functools.wraps`: a call binds as Python binds it, to the wrapper's own parameters."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

OUTSIDE = """
import functools, inspect
from pyebpf import Struct

def minus(a, b): return a - b

@functools.wraps(minus)
def flipped(b, a): return minus(a, b)

def scaled(a, k=5): return a * 100 + k

@functools.wraps(scaled)
def other_default(a, k=7): return scaled(a, k)

@functools.wraps(scaled)
def named_default(a, *, k=8): return scaled(a, k)

@functools.wraps(minus)
def any_number(*given): return minus(*given) + len(given)

def subtract(x, y): return x - y
subtract.__signature__ = inspect.signature(lambda y, x: 0)

def narrow(x: u8) -> u8: return x

@functools.wraps(narrow)
def wide(x): return narrow(x & 127) + x * 1000

@functools.wraps(minus)
def own(x: u8) -> s8: return x

@functools.wraps(narrow)
def wide_for_its_map(x):
    results[1] = 1
    return x

class Pair2(Struct):
    low: s64

    @functools.wraps(lambda self, b, a: 0)
    def method(self, a, b): return self.low + a * 10 + b * 100

    @property
    @functools.wraps(lambda self, more: 0)
    def twice(self): return self.low * 2

@bpf.subprogram
@functools.wraps(narrow)
def separate(a: s64, b: s64) -> s64: return a - b

def visit(key: u32, value: u64) -> bool: return False

@functools.wraps(visit)
def visiting(key, value) -> None: results[3] = 4

class Plain:
    @functools.wraps(lambda self, b, a: 0)
    def method(self, a, b): return a * 10 + b

plain = Plain()
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("flipped(count, 3)", -2),
        ("flipped(a=count, b=3)", 2),
        ("flipped(5, 3) + 0 * count", -2),
        ("other_default(count)", 507),
        ("named_default(count)", 508),
        ("named_default(count, k=1)", 501),
        ("any_number(count, 3)", 4),
        ("subtract(count, 3)", 2),
        ("wide(count + 300)", 305 * 1000 + 49),
        ("wide(305)", 305 * 1000 + 49),
        ("own(count + 250)", -1),
        ("wide_for_its_map(305)", 305),
        ("Pair2(low=count).method(1, 2)", 215),
        ("Pair2(low=count).twice", 10),
        ("separate(count, 7)", -2),
        ("plain.method(count, 2)", 52),
    ],
)
def test_a_call_binds_to_the_wrappers_own_parameters(source: str, expected: int) -> None:
    """Neither `__wrapped__` nor `__signature__` nor copied annotations say how Python calls a function."""
    assert results(f"results[0] = {source}", outside=OUTSIDE)[0] == expected


def test_a_callback_returns_as_its_own_annotation_says() -> None:
    """A wrapper of a function that returns a truth value returns none."""
    build("counts.for_each(visiting)", "", OUTSIDE)


def test_a_probe_is_annotated_by_itself() -> None:
    """The wrapped function's narrow type is not the probe's."""
    outside = "import functools\ndef before(count: u8): pass"
    body = "results[0] = count"
    wrapped = "@bpf.tracepoint('syscalls:sys_enter_openat')\n@functools.wraps(before)"
    assert str(build(body, "count", outside, wrapped)) == str(build(body, "count", outside))


def test_an_annotation_that_wraps_has_replaced_is_refused() -> None:
    """Nobody has the value of a local name any more."""
    outside = """
    import functools
    def decorate(f):
        Local = u8
        @functools.wraps(f)
        def wrapper(x: Local): return f(x)
        return wrapper
    @decorate
    def inner(x): return x
    """
    with pytest.raises(CompileError) as caught:
        build("results[0] = inner(count)", "count", outside)
    words, under = message(caught.value)
    assert words.startswith("inner is a wrapper, whose annotations functools.wraps replaces, and Local is a local name")
    assert under == "Local"
