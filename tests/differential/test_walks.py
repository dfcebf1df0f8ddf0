"""Random loops over maps: CPython over dictionaries and the interpreter agree. No kernel is needed."""

from __future__ import annotations

from random import Random

import pytest

from pyebpf.dsl.module import Module
from pyebpf.testing import Simulation
from tests.differential.walks import by_cpython, contents, declare, generate, run_text
from tests.dsl.fake_target import FakeTarget

PROGRAMS = 40
FIRST = 2_000_000


def test_programs_have_every_construct() -> None:
    """Among a few hundred programs each way to go over a map, and each way to leave the loop, stands at least once."""
    text = "\n".join(generate(seed) for seed in range(300))
    pieces = [" in first:", ".items():", ".keys():", ".values():", "break", "continue", "return ", "del first["]
    pieces += ["find(", "unroll(", "range(3)", "r.low", ".high = ", " in pairs.items()"]
    assert [piece for piece in pieces if piece not in text] == []


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_cpython_and_the_interpreter_agree(seed: int) -> None:
    """The same source returns the same number and leaves the same in every map."""
    text = generate(seed)
    module = Module()
    maps = declare(module)
    run_text(text, {"bpf": module, **maps})
    with Simulation(module, FakeTarget()) as simulation:
        for number in range(4):
            given = contents(Random(4 * seed + number))
            for name, entries in given.items():
                maps[name].clear()
                maps[name].update(entries)
            value, expected = by_cpython(text, given)
            assert simulation.run("program").value == value, text
            assert {name: dict(table.items()) for name, table in maps.items()} == expected, text
