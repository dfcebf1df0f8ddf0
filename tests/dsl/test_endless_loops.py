"""`while` loops that nothing bounds, for a kernel with may_goto."""

from __future__ import annotations

import pytest

from pyebpf.builder.drop_counters import DROPS_MAP, DropCounters, DropReason
from pyebpf.builder.loops import CUT_OFF, ZERO_MAP
from pyebpf.compiler import compile_module
from pyebpf.compiler.evaluator import Pointer, Region, evaluate
from pyebpf.compiler.ir import MayGoto
from pyebpf.errors import CompileError
from pyebpf.module.program import build_program
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import build, probe

BODY = """
rounds = 0
while results[1] != rounds:
    rounds += 1
    if rounds == 23:
        continue
    if rounds == 211:
        results[2] = 1
        break
results[0] = rounds
"""


@pytest.mark.parametrize(
    ("ends_at", "limit", "rounds", "lost", "left"),
    [(97, 1000, 97, 0, 0), (0, 1000, 0, 0, 0), (997, 1000, 211, 0, 1), (97, 97, 97, 1, 0), (97, 41, 41, 1, 0)],
)
def test_the_kernel_ends_what_the_program_does_not(ends_at: int, limit: int, rounds: int, lost: int, left: int) -> None:
    """The loop is left by its test, by `break`, or by the kernel, which counts as one drop."""
    made = probe(BODY)
    built = build_program(made.body, made.attachments[0], FakeTarget(missing=frozenset()), DropCounters(), "probe")
    code = compile_module(built.module, FakeTarget(missing=frozenset()), check=True)
    assert [each.op.name for each in code.instructions].count("may_goto") == 1
    assert built.drop_counters.reasons == (DropReason(CUT_OFF),)
    counters = Region.of("drops", bytes(8))
    results = Region.of("results", bytes(8) + ends_at.to_bytes(8, "little") + bytes(8 * 14))
    context = Pointer(Region.of("context", bytes(64)), 0)

    def look_up(_: object, __: object, key: Pointer) -> Pointer:
        return Pointer(results, 8 * int.from_bytes(key.region.load(key.offset, 4), "little"))

    values = {DROPS_MAP: counters, ZERO_MAP: Region.of("zero", bytes(8), writable=False)}
    evaluate(built.module, [context], helpers={1: look_up}, values=values, loop_limit=limit)
    assert int.from_bytes(results.data[:8], "little") == rounds
    assert int.from_bytes(results.data[16:24], "little") == left
    assert int.from_bytes(counters.data, "little") == lost


def test_bounded_loops_need_no_help() -> None:
    """A loop whose end the verifier sees is made without may_goto, on any kernel."""
    made = probe("n = 0\nwhile n < 10:\n    n += 1\nresults[0] = n")
    module = build_program(
        made.body, made.attachments[0], FakeTarget(missing=frozenset()), DropCounters(), "probe"
    ).module
    assert not any(isinstance(block.terminator, MayGoto) for block in module.main.blocks)


def test_without_may_goto_it_is_refused() -> None:
    """The error shows the `for` form."""
    with pytest.raises(CompileError, match=r"write `for i in range\(n\):`"):
        build(BODY)


@pytest.mark.parametrize("leaving", ["if False:\n        break", "if LIMIT is None:\n        return 1"])
def test_a_way_out_that_is_never_taken_is_none(leaving: str) -> None:
    """What compile time leaves out of the loop cannot end it."""
    made = probe(f"while True:\n    results[0] += 1\n    {leaving}", outside="LIMIT = 3")
    with pytest.raises(CompileError, match="this `while` has no way out"):
        build_program(made.body, made.attachments[0], FakeTarget(missing=frozenset()), DropCounters(), "probe")
