"""Integer types as annotations: of locals, parameters and results, however a function is compiled."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

FUNCTIONS = """
@bpf.subprogram
def separate(x: s8) -> s64:
    return x

@bpf.subprogram
def narrow(x: s64) -> s8:
    return x

def inlined(x: s8):
    return x

def given(x) -> s8:
    return x

def inlined_for_its_map(x: s8):
    results[1] = 1
    return x
"""
LOCAL = "def local(x: s8): return x\n"


@pytest.mark.parametrize(
    "body",
    [
        "x: s8 = count + 195\nresults[0] = x",
        "results[0] = separate(count + 195)",
        "results[0] = narrow(count + 195)",
        "results[0] = inlined(count + 195)",
        "results[0] = given(count + 195)",
        "results[0] = inlined_for_its_map(count + 195)",
        LOCAL + "results[0] = local(count + 195)",
    ],
)
def test_run_time_values_wrap(body: str) -> None:
    """200 as an s8 is -56."""
    assert results(body, outside=FUNCTIONS)[0] == -56


@pytest.mark.parametrize("call", ["inlined(-56)", "given(-56)", "inlined_for_its_map(-56)", "inlined(x=-56)"])
def test_known_values_that_fit_are_taken(call: str) -> None:
    """Python itself calls a function of known values."""
    assert results(f"results[0] = {call}", outside=FUNCTIONS)[0] == -56


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x: s8 = 200", "200 does not fit s8: it holds -128 to 127"),
        ("results[0] = inlined_for_its_map(200)", "200 does not fit s8: it holds -128 to 127"),
        (LOCAL + "results[0] = local(200)", "200 does not fit s8: it holds -128 to 127"),
        (
            "results[0] = inlined(200)",
            "x of inlined() is annotated as s8, which 200 does not fit: it holds -128 to 127",
        ),
        (
            "results[0] = inlined(x=200)",
            "x of inlined() is annotated as s8, which 200 does not fit: it holds -128 to 127",
        ),
        (
            "results[0] = given(200)",
            "the result of given() is annotated as s8, which 200 does not fit: it holds -128 to 127",
        ),
    ],
)
def test_known_values_that_do_not_fit_are_refused(body: str, expected: str) -> None:
    """A constant that the type cannot hold is a mistake, which wrapping would hide."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta", FUNCTIONS)
    assert message(caught.value)[0] == expected
