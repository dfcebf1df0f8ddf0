"""Random programs of the language: CPython over the model and the IR evaluator agree. No kernel is needed."""

from __future__ import annotations

import random
import re

import pytest

from pyebpf.compiler import compile_with_report
from pyebpf.types import INTEGERS
from tests.differential.bounds import Bounds
from tests.differential.forms import FORMS
from tests.differential.generator import generate
from tests.differential.model import S64, U64, typed
from tests.differential.program import Scope
from tests.differential.running import build, by_cpython, by_evaluator, inputs_of, used
from tests.dsl import harness
from tests.dsl.fake_target import FakeTarget

PROGRAMS = 40
FIRST = 1_000_000


def test_the_model_is_the_table_of_the_language() -> None:
    """Rows of the table of integers, by hand."""
    assert (U64(1) - 2, S64(1) - 2) == ((1 << 64) - 1, -1)
    assert type(U64(1) + S64(1)) is type(S64(1) + U64(1)) is U64
    assert type(S64(1) + 1) is type(1 + S64(1)) is S64
    assert S64((1 << 63) - 1) + 1 == -(1 << 63)
    assert (S64(-7) // 2, S64(-7) % 2, S64(7) // S64(-2), S64(7) % S64(-2)) == (-4, 1, -4, -1)
    assert (S64(5) // S64(0), S64(5) % S64(0), U64(5) // U64(0), U64(5) % U64(0)) == (0, 5, 0, 5)
    assert (S64(-8) >> 1, U64((1 << 64) - 8) >> 1) == (-4, (1 << 63) - 4)
    assert (S64(1) << S64(65), S64(1) << 63, U64(1) << 63) == (2, -(1 << 63), 1 << 63)
    assert (abs(S64(-(1 << 63))), -S64(-(1 << 63))) == (-(1 << 63), -(1 << 63))
    assert S64(-1) < U64(0) < U64((1 << 64) - 1)
    assert (typed(INTEGERS["u8"], 257), typed(INTEGERS["s8"], 255), typed(INTEGERS["u64"], -1)) == (
        1,
        -1,
        (1 << 64) - 1,
    )
    assert type(typed(INTEGERS["u32"], 5)) is S64


def test_a_seed_is_a_program() -> None:
    """The same seed gives the same text, another one another."""
    assert generate(7) == generate(7)
    assert generate(7).text != generate(8).text


def test_programs_have_every_construct() -> None:
    """Among a few hundred programs each piece of syntax that the generator knows stands at least once."""
    programs = [generate(seed, small=seed % 4 != 0) for seed in range(800)]
    text = "\n".join(program.text for program in programs)
    pieces = [
        "if ",
        "elif ",
        "else:",
        "match ",
        "case _",
        "for ",
        "while ",
        "break",
        "continue",
        "return",
        "@subprogram",
    ]
    pieces += ["Record(", "counts[", "sums[", "small[", "del ", ".get(", " and ", " or ", " not ", " in (", " not in ("]
    pieces += [" in {(", " in [(", "(t", "[0]", ", = t"]
    operators = "+ - * // % & | ^ << >> < <= > >= == != += -= *= //= %= &= |= ^= <<= >>="
    pieces += [f" {operator} " for operator in operators.split()]
    pieces += ["(~", "(-", "abs(", "min(", "max(", " if ", *(f"{name}(" for name in INTEGERS if name[0] in "us")]
    assert [piece for piece in pieces if piece not in text] == []
    assert any(program.called for program in programs)


@pytest.fixture(scope="module")
def texts() -> str:
    """Some thousand programs."""
    return "\n".join(generate(seed, small=seed % 4 != 0).text for seed in range(1500))


@pytest.mark.parametrize("name", FORMS)
def test_programs_have_every_form(name: str, texts: str) -> None:
    """Among them each form stands at least once."""
    assert [form for form in FORMS[name].split("\n")[1:-1] if not re.search(form, texts, re.MULTILINE)] == []


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_cpython_and_the_evaluator_agree(seed: int) -> None:
    """The same source leaves the same in every map, and the compiler's own checkers find nothing."""
    program = generate(seed, small=seed % 4 != 0)
    module, specs = build(program, FakeTarget())
    compile_with_report(module, FakeTarget(), check=seed % 4 == 0)
    for number in range(4):
        inputs = inputs_of(4 * seed + number, tuple(used(program)))
        assert by_evaluator(program, module, specs, inputs) == by_cpython(program, inputs), program.text


@pytest.mark.parametrize("seed", range(60))
def test_a_name_of_a_narrow_number_is_tested_as_a_wide_one(seed: int) -> None:
    """The language refuses `y < 0` of a u8, and `y > 300`: no generated program has such a test."""
    writer = Bounds(random.Random(seed), seed, small=True)
    writer.inlined = True
    chosen = writer._chosen(Scope({"x0": "u", "y1": "s"}, []), 300)
    assert harness.build(
        f"x0 = count\ny1 = u8(delta)\nresults[0] = {chosen}", "count, delta", "\n".join(writer.outside)
    )
