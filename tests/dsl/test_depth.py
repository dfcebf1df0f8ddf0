"""Trees deeper than Python's stack, and functions that double what they call: done, or refused at their place."""

from __future__ import annotations

import pytest

from pyebpf.builder.drop_counters import DropCounters
from pyebpf.errors import CompileError, InvalidValue
from pyebpf.module.program import build_program
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import build, message, namespace, probe, run
from tests.dsl.test_meaning import results

CHOICES = "".join(f"{i} if count == {i} else " for i in range(300))
DOUBLING = "def f0(x): return x + 1\n" + "".join(
    f"def f{i}(x): return f{i - 1}(x) + f{i - 1}(x + 1)\n" for i in range(1, 13)
)
CHAIN = "def f0(x): return x + 1\n" + "".join(f"def f{i}(x): return f{i - 1}(x)\n" for i in range(1, 80))


def elifs(number: int) -> str:
    """A chain of that many conditions."""
    first = "if count == 1000:\n    results[0] = 1\n"
    return first + "".join(f"elif count == {i}:\n    results[0] = {i + 7}\n" for i in range(1, number))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("results[0] = " + " + ".join(["count"] * 300), [1500]),
        ("results[0] = " + "-" * 900 + "delta", [-3]),
        ("results[0] = " + "~" * 901 + "delta", [2]),
        ("results[0] = " + CHOICES + "7", [5]),
    ],
    ids=["sum", "minus", "invert", "conditional"],
)
def test_deep_trees_work(body: str, expected: list[int]) -> None:
    """Hundreds of levels, more than Python's own limit of frames allows."""
    assert results(body) == expected


def test_a_long_chain_of_elifs_is_built() -> None:
    """Each `elif` stands inside the one before."""
    made = probe(elifs(400), "count, delta")
    assert build_program(made.body, made.attachments[0], FakeTarget(), DropCounters(), "probe").module.functions


@pytest.mark.parametrize(
    ("body", "outside", "expected"),
    [
        (elifs(1100), "", "more than 1000 statements and expressions stand inside each other here"),
        ("results[0] = f12(delta)", DOUBLING, "more than 2048 calls would be written out in this program"),
        ("results[0] = f79(delta)", CHAIN, "functions that call functions are written out 64 deep"),
    ],
    ids=["elifs", "doubling", "chain"],
)
def test_what_is_too_deep_is_refused_with_its_place(body: str, outside: str, expected: str) -> None:
    """No RecursionError, and no minutes of translating."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta", outside)
    words, _ = message(caught.value)
    assert words.startswith(expected)
    assert caught.value.location is not None
    assert caught.value.location.line > 1


@pytest.mark.parametrize(
    ("body", "expected", "under"),
    [
        (
            "while True:\n    results[0] = 1",
            "this `while` has no way out: leave it by `break` or `return`, or write a test that fails",
            "True",
        ),
        (
            "while 1:\n    for i in range(3):\n        break",
            "this `while` has no way out: leave it by `break` or `return`, or write a test that fails",
            "1",
        ),
        (
            "if count == 'x': pass",
            (
                "a u64 cannot be compared with 'x' by ==: if it is the address of a text, compare user_string(…) or "
                "kernel_string(…) of it"
            ),
            "count == 'x'",
        ),
        (
            "pid = 3\nresults[0] = pid()",
            "pid is a parameter or local here, which hides the word pid(): give it another name",
            "pid",
        ),
        (
            "x: int = count\nif delta > 0:\n    x = delta",
            (
                "x is u64 on line 4 and s64 here: annotate it with its width, `x: u64` or `x: s64`, which `int` does "
                "not say"
            ),
            "x = delta",
        ),
        (
            "if count > 3:\n    count = delta",
            "count is u64 on line 3 and s64 here: annotate the parameter, `count: u64` or `count: s64`",
            "count = delta",
        ),
    ],
)
def test_messages(body: str, expected: str, under: str) -> None:
    """What is wrong, where, and what to write instead."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta")
    assert message(caught.value) == (expected, under)


@pytest.mark.parametrize("decorator", ["tracepoint", "raw_tracepoint", "btf_tracepoint", "function", "uprobe"])
def test_a_decorator_without_its_parentheses_says_so(decorator: str) -> None:
    """It has targets, which stand in them."""
    with pytest.raises(InvalidValue, match=rf"@bpf\.{decorator} stands here without its parentheses"):
        run(f"@bpf.{decorator}\ndef probe(count):\n    pass\n", namespace())
