"""Compiling takes time in proportion to the program.

Function calls are counted, which are the same on every machine and however busy it is.
"""

from __future__ import annotations

import cProfile
from typing import TYPE_CHECKING

import pytest

from pyebpf.collector import collector_paused
from pyebpf.dsl.module import Module
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import probe

if TYPE_CHECKING:
    from collections.abc import Callable

#: Calls may grow by so much more than the program: the trees of `builder/ssa/persistent.py` get a level higher.
SLACK = 1.2

#: Statements by their number that once took more the more there were: paths that differ, names, addresses.
ONCE_SLOW: dict[str, Callable[[int], str]] = {
    "elif": lambda n: f"{'elif' if n else 'if'} count == {7 * n}:\n    total += {n + 1}\n",
    "elif with maps": lambda n: f"{'elif' if n else 'if'} count == {7 * n}:\n    counts[{n}] += 1\n",
    "names": lambda n: f"n{n} = total + count\nif n{n} > {n}:\n    total ^= n{n}\n",
    "look-ups": lambda n: f"e{n} = counts.get({n})\nif e{n} is not None:\n    total += e{n}\n",
    "deletions": lambda n: f"e{n} = counts.get({n})\nif e{n} is not None:\n    total += e{n}\n    del counts[{n}]\n",
}
#: Statements of other kinds, one of each in every round.
OTHERS: tuple[Callable[[int], str], ...] = (
    lambda n: f"counts[{n}] += 1\nsigned[{n}] = {n}\nlatency.add(count)\nopens[comm()] += 1\n",
    lambda n: f"if count == {7 * n}:\n    total += {n + 1}\n",
    lambda n: f"match count:\n    case {n}:\n        total += {n}\n    case {n + 1}:\n        counts[2] += 1\n",
    lambda n: f"total = (total * {2 * n + 3} + count) ^ (total >> {1 + n % 13})\n",
    lambda n: f"total += {'+'.join(f'(count ^ {n + i})' for i in range(9))}\n",
    lambda n: f"first.at = count + {n}\nfirst.limit = {n}\n",
    lambda n: f"events.emit(Record(at=count, limit={n}, name=comm()))\n",
    lambda n: f"total += helper(count, {n})\n",
    lambda n: f"for i in range({3 + n % 5}):\n    total += count // (i + {1 + n % 13})\n",
    lambda n: f"k = u64(0)\nwhile k < {3 + n % 4}:\n    k += 1\n    total += k\n",
    lambda n: f"total += count if count > {n} else {n}\n",
    lambda n: f"if count == {n}:\n    return\n",
)
HELPER = "def helper(a, b):\n    if a > b:\n        return a\n    return a * b\n"


def calls(statements: str) -> int:
    """Function calls, C's among them, that compiling a probe of the statements takes."""
    head = "total = u64(0)\nfirst = records.get(0)\nif first is None:\n    return\n"
    made = probe(f"{head}{statements}results[0] = total\n", "count: u64", outside=HELPER)
    module = Module()
    module.probes.append(made)
    profile = cProfile.Profile(builtins=True)
    with collector_paused():
        profile.enable()
        module.compile(FakeTarget())
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def check_growth(statement: Callable[[int], str], small: int, large: int) -> None:
    """So many times as many statements take at most a little more than so many times as many calls."""
    calls(statement(0))  # what is made once and kept
    few, many = (calls("".join(map(statement, range(size)))) for size in (small, large))
    assert many < large / small * SLACK * few, f"{few:,} calls for {small} statements, {many:,} for {large}"


@pytest.mark.parametrize("kind", ONCE_SLOW)
def test_work_grows_as_the_program_does(kind: str) -> None:
    """A statement costs the same whatever stands before it and around it."""
    check_growth(ONCE_SLOW[kind], 50, 200)


def test_work_grows_as_a_program_of_all_kinds_does() -> None:
    """The same where statements of all kinds follow each other."""
    check_growth(lambda number: "".join(other(number) for other in OTHERS), 6, 24)
