"""Integers in the kernel: every operator over every mix of types, against CPython running the same source."""

from __future__ import annotations

import random

import pytest

from tests.language.harness import Case, Host, Oldest
from tests.language.model import run
from tests.language.test_integers import PAIRS, VALUES

OPERATORS = ["+", "-", "*", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!="]
DIVISIONS = ["st", "ti", "iw", "wi", "uv", "uw", "wu", "bc", "cb", "sq", "uc"]
UNARY = [
    "-s",
    "~u",
    "abs(i)",
    "-b",
    "not u",
    "s // 8",
    "s % 1000",
    "u // 10",
    "s // -7",
    "s % -64",
    "u >> 63",
    "i >> 31",
]
CONVERSIONS = [f"{type_}({name})" for type_ in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64") for name in "su"]
EXPRESSIONS = [
    *(f"{a} {sign} {b}" for sign in OPERATORS for a, b in PAIRS),
    *(f"{a} {sign} {b}" for sign in ("//", "%") for a, b in DIVISIONS),
    *(f"({a} {sign} {b}) >> 1" for sign in ("+", "*", "<<", "|") for a, b in ("su", "us", "st", "uv")),
    *(f"{pick}({a}, {b})" for pick in ("min", "max") for a, b in PAIRS),
    *UNARY,
    *CONVERSIONS,
]
RUNS = 7


@pytest.mark.parametrize("target", [Host(), Oldest()], ids=["host", "oldest"])
def test_every_row_of_the_table_holds_in_the_kernel(target):
    """Eight expressions a program, seven runs each, operands at the edges of their types."""
    chance = random.Random(61)
    shuffled = EXPRESSIONS[:]
    chance.shuffle(shuffled)
    parameters = ", ".join(VALUES)
    for start in range(0, len(shuffled), 8):
        body = "\n".join(f"out[0].r{n} = {text}" for n, text in enumerate(shuffled[start : start + 8]))
        with Case(body, parameters).loaded(target) as loaded:
            for _ in range(RUNS):
                given = {name: chance.choice(values) for name, values in VALUES.items()}
                assert loaded.run(**given) == run(body, parameters, given), (body, given)
