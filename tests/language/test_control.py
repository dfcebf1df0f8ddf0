"""Statements, loops and functions: what runs at run time and what while compiling, against CPython.

The cases stand in control.txt.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.language.harness import ARGUMENTS, Case
from tests.language.model import run
from tests.language.test_integers import VALUES
from tests.support.texts import texts

CASES = list(texts(Path(__file__).with_name("control.txt")))


@pytest.mark.parametrize("text", CASES, ids=[text.title for text in CASES])
def test_as_python_has_it(text):
    """The evaluator finds what CPython finds, for arguments at edges and for small ones."""
    case = Case(text.body, text.parameters, text.outside)
    for given in samples(text.parameters, 43):
        assert case.evaluate(**given) == run(text.body, text.parameters, given, text.outside), given


def samples(parameters, count):
    """Arguments: edges of their types, and small numbers that loops count to."""
    chance = random.Random(parameters)
    names = [name.strip() for name in parameters.split(",") if name.strip()]
    for _ in range(count if names else 1):
        yield {
            name: chance.choice(VALUES[name])
            if chance.random() < 0.4
            else chance.randrange(max(ARGUMENTS[name].minimum, -9), 12)
            for name in names
        }
