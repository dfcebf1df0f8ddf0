"""Tuples with run-time values in them, and that nothing of the builder's is ever answered for by Python's operators."""

from __future__ import annotations

import importlib
import pkgutil
import re
import typing
from typing import Any

import pytest

import pyebpf.aggregations
import pyebpf.builder
import pyebpf.dsl
import pyebpf.maps
from pyebpf.builder.ssa import conditions
from pyebpf.builder.values.entity import Entity, NoPythonOperators, RunTimeValue
from pyebpf.errors import CompileError, OnlyInProbe
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

ALLOWED = """
LIST = [(5, -3), (7, 8)]
SET = {(5, -3), (7, 8)}
FROZEN = frozenset(SET)
DICT = {(5, -3): 1, (7, 8): 2}
OTHERS = [(5, 3), (7, -3)]
NESTED = (((5, "a"), None), ((7, "b"), None))
MIXED = [(1, 2, 3), (5, -3)]
def is_allowed(a, b):
    return (a, b) in SET
def pair(a, b):
    return a, b
both = lambda a, b: (a, b) == (5, -3)
"""

#: Expressions with `count` = 5 (a u64) and `delta` = -3 (an s64), which Python answers alike.
EXPRESSIONS = [
    "(count, delta) == (5, -3)",
    "(5, -3) == (count, delta)",
    "(count, delta) == (5, 3)",
    "(count, 1) == (5, 2)",
    "(count, 1) != (5, 1)",
    "(count, 1) != (5, 2)",
    "(count, delta) != (5, 3)",
    "(count, delta) == (delta, count)",
    "(count, (delta, 1)) == (5, (-3, 1))",
    "(count, (delta, 1)) == (5, (-3, 2))",
    "(count, 'a', None) == (5, 'a', None)",
    "(count, 'a', None) == (5, 'b', None)",
    "(count, None) == (5, 7)",
    "(count, 7) == (5, None)",
    "(count, delta) in LIST",
    "(count, delta) in SET",
    "(count, delta) in FROZEN",
    "(count, delta) in DICT",
    "(count, delta) in DICT.keys()",
    "(count, delta) in ((5, -3),)",
    "(count, delta) in OTHERS",
    "(count, delta) not in OTHERS",
    "(count, delta) in MIXED",
    "((count, 'a'), None) in NESTED",
    "((count, 'b'), None) in NESTED",
    "(5, -3) in ((count, delta), (1, 2))",
    "count in (1, delta, 5)",
    "count in {1: 5}.values()",
    "is_allowed(count, delta)",
    "both(count, delta)",
    "pair(count, delta) == (5, -3)",
    "pair(count, delta) in SET",
    "(count, delta) < (5, 0)",
    "(count, delta) < (5, -3)",
    "(count, delta) <= (5, -3)",
    "(count, delta) > (4, 100)",
    "(count, delta) >= (5, -2)",
    "(count, delta, 1) > (5, -3)",
    "(count, delta) < (5, -3, 0)",
    "(0, count) < (0, 6)",
    "(count, delta) >= (0, -5)",
    "(count, (delta, 1)) < (5, (-3, 2))",
    "() < (count,)",
    "1 < (2 if (count, delta) == (5, -3) else 0) < 3",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_tuples_compare_as_pythons_do(expression: str) -> None:
    """Element by element; in a name that paths give other values to, too."""
    names: dict[str, Any] = {"count": 5, "delta": -3}
    exec(ALLOWED, names)
    wanted = [1 + bool(eval(expression, names))]
    assert results(f"results[0] = 1\nif {expression}:\n    results[0] = 2", outside=ALLOWED) == wanted
    assert results(f"results[0] = 1 + ({expression})", outside=ALLOWED) == wanted


@pytest.mark.parametrize("expression", ["t == (5, -3)", "(5, -3) == t", "t in SET", "t < (5, 0)", "t != (5, -3)"])
def test_a_tuple_of_several_paths_compares(expression: str) -> None:
    """A name that is a tuple on each of two paths."""
    for count in (5, 0):
        names: dict[str, Any] = {"t": (5, -3) if count else (7, 9)}
        exec(ALLOWED, names)
        body = f"t = (s64(count), delta)\nif count == 0:\n    t = (7, 9)\nresults[0] = 1 + ({expression})"
        assert results(body, count, outside=ALLOWED) == [1 + eval(expression, names)]


def test_what_may_be_none_in_a_tuple_is_compared_with_none() -> None:
    """`==` with None asks, there, whether a look-up found something."""
    body = "results[0] = 1 + ((counts.get(3), count) == (None, 5))\ncounts[3] = 1\n"
    body += "results[1] = 1 + ((counts.get(3), count) == (None, 5))"
    assert results(body) == [2, 1]


def test_the_truth_of_a_tuple() -> None:
    """A tuple is true if it has elements, whatever they are."""
    body = "t = (delta, 0)\nif count == 0:\n    t = (1, delta)\nresults[0] = 1 if t else 2\nresults[1] = 1 if () else 2"
    assert results(body) == [1, 2]


REFUSED = {
    "(count, 1) == (1, 2, 3)": "a tuple of 2 is never equal to one of 3",
    "(count, 1) == [1, 2]": "(an s32, 1) is never equal to [1, 2], as a tuple is not a list: write tuple(…)",
    "(count, 1) == 5": "(an s32, 1) is never equal to 5",
    "(count, 1) in {1, 2}": "(an s32, 1) is never equal to 1: nothing in [1, 2] can be it",
    "(count, 1) in ((1, 2, 3), (1,))": (
        "a tuple of 2 is never equal to one of 3: nothing in [(1, 2, 3), (1,)] can be it"
    ),
    "(count, 1) < 5": "(an s32, 1) cannot be compared with 5 by <",
    "(count, 1) == ('a', 1)": "an s32 cannot be compared with 'a' by ==: if it is the address of a text, "
    "compare user_string(…) or kernel_string(…) of it",
    "(pid, 1) == (3, 1)": "pid is used here without parentheses: write pid()",
    "(pid, 1) in ((3, 1),)": "pid is used here without parentheses: write pid()",
    "(opens, 1) == (opens, 1)": "the map opens cannot be compared with the map opens by ==",
    "min((count, 1), (2, 3))[0]": "min() is for numbers at run time: of two tuples write `b if b < a else a`",
    "{(1, 1): 3}[(count, 1)]": "this key may be missing, and there are no exceptions in a probe: write .get(k), and "
    "test that with `is None`, or .get(k, default)",
    "comm() in 'python bash'": "comm() in 'python bash' would ask whether it is a substring, which is known only "
    "at run time: write in ('python', 'bash')",
    "comm() in 'bash'": "comm() in 'bash' would ask whether it is a substring, which is known only at "
    "run time: write == 'bash'",
    "count in 'bash'": "an s32 in 'bash' would ask whether it is a substring, which is known only at "
    "run time: write == 'bash'",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_can_never_be_equal_is_refused(expression: str) -> None:
    """A comparison whose answer the shapes decide is an error, as one that a type decides."""
    with pytest.raises(CompileError) as error:
        build(f"count = dfd\ntable[0] = {expression}", "dfd")
    found, under = message(error.value)
    assert re.sub(r"; count is a run-time variable.*", "", found) == REFUSED[expression]
    assert under in (expression, expression.removesuffix("[0]"))


def test_a_string_read_once_is_compared_with_many() -> None:
    """`in` reads text once: forty names take no more of the stack than one."""
    names = ", ".join(repr(f"name{number}") for number in range(40))
    for expression in (f"comm() in ({names})", f"user_string(filename) in ({names})"):
        module = build(f"table[0] = {expression}", "filename")
        assert sum(slot.size for slot in module.functions[0].slots) <= 64


@pytest.mark.parametrize(
    ("expression", "size"),
    [
        ("user_string(filename) == '/etc/passwd'", 16),
        ("'/etc/passwd' == user_string(filename)", 16),
        ("user_string(filename) in ('/etc/passwd', '/etc/hostname.d')", 24),
        ("user_string(filename).startswith('/etc/')", 8),
        ("(user_string(filename), 1) == ('/etc', 1)", 8),
        ("user_string(filename) == comm()", 24),
    ],
)
def test_what_a_string_is_compared_with_tells_its_size(expression: str, size: int) -> None:
    """One byte more than the longest, so that a longer string differs."""
    module = build(f"table[0] = {expression}", "filename")
    assert size in [slot.size for slot in module.functions[0].slots]


# -- Python's own operators --------------------------------------------------------------------------------------------

#: What authors hold in Python: maps, words, functions, types. All else stands for what only each event knows.
HELD_IN_PYTHON = {
    "Aggregation",
    "HelperFunction",
    "MapPointer",
    "Subprogram",
    "Intrinsic",
    "kfunc",
}


def every(cls: type) -> set[type]:
    """A class and all that are derived from it."""
    return {cls}.union(*map(every, cls.__subclasses__()))


def classes() -> list[type]:
    """Every class of the builder and the translator that may stand in an expression."""
    for package in (pyebpf.builder, pyebpf.dsl, pyebpf.maps, pyebpf.aggregations):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found = every(Entity) | every(NoPythonOperators) | set(typing.get_args(conditions.Test))
    found = {cls for cls in found if cls.__module__.startswith("pyebpf.")}
    return sorted(found - {Entity, NoPythonOperators}, key=lambda cls: (cls.__module__, cls.__qualname__))


def is_held(cls: type) -> bool:
    """Whether a class is one of those that authors hold in Python."""
    return any(base.__name__ in HELD_IN_PYTHON for base in cls.__mro__)


def test_every_class_of_values_is_looked_at() -> None:
    """The walk finds them all: run-time values among them, each of which refuses."""
    found = classes()
    assert len([cls for cls in found if issubclass(cls, RunTimeValue)]) >= 15
    assert {cls.__name__ for cls in found if not issubclass(cls, NoPythonOperators) and not is_held(cls)} == set()


@pytest.mark.parametrize("cls", [cls for cls in classes() if not is_held(cls)], ids=lambda cls: cls.__qualname__)
def test_pythons_own_operators_are_refused(cls: type) -> None:
    """`==`, `!=`, hash, truth, `in`, index and iteration of run-time values are no answers of Python's."""
    value: Any = object.__new__(cls)
    cls_describe = cls.describe  # type: ignore[attr-defined]  # every class of the two families has it
    try:
        cls_describe(value)
    except AttributeError:
        # Nothing was made of it: the name is all that the message needs.
        cls = type(cls.__name__, (cls,), {"__slots__": (), "describe": lambda _self: "it"})
        value = object.__new__(cls)
    operators = {
        "==": lambda: value == 1,
        "!=": lambda: value != 1,
        "== itself": lambda: (value, 1) == (object.__new__(cls), 1),
        "hash": lambda: {value},
        "bool": lambda: bool(value),
        "in": lambda: 1 in value,
        "in a list": lambda: value in [1, 2],
        "index": lambda: [1, 2][value],
        "iter": lambda: list(value),
    }
    for name, use in operators.items():
        with pytest.raises(OnlyInProbe, match="is known only at run time, and Python's"):
            pytest.fail(f"{name} of {cls.__name__} is {use()!r}")


#: Bodies that hand the context on in a tuple, as they may hand on any value of the event.
WITH_CONTEXT = [
    "results[0] = (ctx, 1)[0].count",
    "x, y = ctx, 1\nresults[0] = x.count + y",
    "for each in (ctx,):\n    results[0] = each.count",
    "for number, each in enumerate((ctx, ctx)):\n    results[number] = each.count",
    "pair = ctx, 3\nif ctx.count > 3:\n    pair = ctx, 4\nresults[pair[1]] = pair[0].count",
    "def f(c=ctx):\n    return c.count, c\nresults[0] = f()[1].count",
    "def f(*given):\n    return given[0].count\nresults[0] = f(ctx, 2)",
    "match ctx, 1:\n    case (same, 1):\n        results[0] = same.count",
]


@pytest.mark.parametrize("body", WITH_CONTEXT)
def test_a_tuple_may_hold_the_context(body: str) -> None:
    """In a list, a set or a dictionary it is refused, as any value of the event is (refused.txt)."""
    assert build(body, "ctx").main.blocks


def test_an_array_is_compared_by_its_elements() -> None:
    """An array and a list may well be equal, which the message doesn't deny."""
    numbers = """from pyebpf.types import Struct, array, field, s16
class Numbers(Struct):
    some: tuple = field(array(s16, 4), default=(1, 2, 3, 4))
"""
    with pytest.raises(CompileError) as error:
        results("n = Numbers()\nresults[0] = n.some == [1, 2, 3, 4]", outside=numbers)
    assert "is not compared with [1, 2, 3, 4] as a whole: write all(x == y for x, y in zip(…, …))" in str(error.value)
    body = "n = Numbers()\nresults[0] = all(x == y for x, y in zip(n.some, [1, 2, 3, 4]))"
    assert results(body, outside=numbers) == [1]
