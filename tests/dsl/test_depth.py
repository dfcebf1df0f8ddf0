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


@pytest.mark.parametrize(
    "body",
    [
        elifs(950),
        "if count == 1000:\n    results[0] = 1\n"
        + "".join(f"elif (x := count + {i}) == 3:\n    for i in range(3): results[0] = x + i\n" for i in range(1, 450)),
        "for round in range(9):\n    if round == 1000: results[0] = 1\n"
        + "".join(f"    elif round == {i} and count < {i}: results[0] = {i}\n" for i in range(1, 900)),
    ],
    ids=["plain", "with-loops", "in-a-loop"],
)
def test_a_long_chain_of_elifs_is_built(body: str) -> None:
    """Each `elif` stands inside the one before. Python 3.12.0 to 3.12.2 allow 800 calls from C inside each other."""
    made = probe(body, "count, delta")
    assert build_program(made.body, made.attachments[0], FakeTarget(), DropCounters(), "probe").module.functions


@pytest.mark.parametrize(
    ("body", "outside", "expected"),
    [
        (elifs(1100), "", "more than 1000 statements and expressions are nested here"),
        ("results[0] = f12(delta)", DOUBLING, "more than 2048 calls would be inlined in this program"),
        ("results[0] = f79(delta)", CHAIN, "functions are inlined 64 calls deep at most"),
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
            "pid is a local variable here and shadows the function pid(): rename it",
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


@pytest.mark.parametrize(
    "decorator", ["tracepoint", "raw_tracepoint", "btf_tracepoint", "function", "uprobe", "syscall"]
)
def test_a_decorator_without_its_parentheses_says_so(decorator: str) -> None:
    """It has targets, which stand in them."""
    with pytest.raises(InvalidValue, match=rf"@bpf\.{decorator} is used here without parentheses"):
        run(f"@bpf.{decorator}\ndef probe(count):\n    pass\n", namespace())


@pytest.mark.parametrize("decorator", ["subprogram", "replaceable"])
def test_a_decorator_with_parentheses_too_many_says_so(decorator: str) -> None:
    """It has no options."""
    with pytest.raises(
        InvalidValue, match=rf"@bpf\.{decorator}\(\) is used with parentheses: write @bpf\.{decorator}, "
    ):
        run(f"@bpf.{decorator}()\ndef f(count):\n    return count\n", namespace())


ENDLESS = """
class Endless:
    def __getattr__(self, name): return getattr(self, name + 'a')
    @property
    def x(self): return self.x
    def __len__(self): return len(self)
    def __eq__(self, other): return self == other
    def __format__(self, spec): return format(self, spec)
    def __iter__(self): return iter(self)
    def __bool__(self): return bool(self)
endless = Endless()
def key(n): return sorted([n], key=key)[0]
"""


@pytest.mark.parametrize(
    "expression",
    [
        "endless.anything",
        "endless.x",
        "len(endless)",
        "1 if endless == 3 else 0",
        "len(f'{endless}')",
        "len(list(endless))",
        "1 if endless else 2",
        "key(1)",
        "max([1, 2], key=key)",
    ],
)
def test_what_calls_itself_without_end_is_refused(expression: str) -> None:
    """Through C as well: Python 3.11 ends the process when that has used up the C stack."""
    with pytest.raises(CompileError, match="a function called itself too often: write a loop"):
        build(f"results[0] = {expression}", "count", ENDLESS)
