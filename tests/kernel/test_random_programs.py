"""Random programs of the language: CPython over the model, the IR evaluator, and this kernel agree."""

from __future__ import annotations

import collections
import os

import pytest

from pyebpf.errors import CompileError
from pyebpf.features import Features
from pyebpf.runtime.host import host_target
from tests.differential.bench import Bench, Compiled, compiled, packed, tried, unpacked

#: How many; CI asks for 400. In an emulated machine, ten times slower, another kernel's verifier is what counts.
PROGRAMS = int(
    os.environ.get("PYEBPF_RANDOM_PROGRAMS", "400" if "CI" in os.environ and "PYEBPF_VM" not in os.environ else "60")
)
FIRST = int(os.environ.get("PYEBPF_RANDOM_SEED", "0"))


def lacks_atomics(error: CompileError) -> bool:
    """Whether a program is refused because this kernel has no atomic operations but addition, as before Linux 5.12."""
    return "no atomic" in str(error) and not Features().has("isa:atomic")


def test_every_leg_agrees() -> None:
    """Each program leaves the same in every map and record, for several inputs; one of four is large.

    Of the large ones more than one in five has spills. What is compiled in one place and run in another does the same.
    """
    target = host_target(lambda: pytest.fail("random programs ask for no tracepoint format"))
    kinds: collections.Counter[str] = collections.Counter()
    spilled = 0
    with Bench() as bench:
        for seed in range(FIRST, FIRST + PROGRAMS):

            def make(seed: int) -> Compiled | None:
                nonlocal spilled
                try:
                    made = compiled(seed, target, small=seed % 4 != 0, checked=lambda _: True)
                except CompileError as error:
                    if lacks_atomics(error):
                        return None
                    raise
                spilled += made.spilled and seed % 4 == 0
                if made.program.called and not Features().has("program:syscall"):
                    return None
                return made

            failure = tried(seed, bench, make)
            if failure is not None:
                kinds[failure.kind] += 1
                assert failure.kind == "gave up", failure
    assert kinds["gave up"] <= PROGRAMS / 50, f"the verifier or the stack gave up {kinds['gave up']} programs"
    assert spilled > PROGRAMS / 20, f"{spilled} of {PROGRAMS / 4} large programs spilled"


def test_what_is_compiled_elsewhere_runs_here() -> None:
    """A program written down and read again, with its tables, agrees with CPython."""
    target = host_target(lambda: pytest.fail("random programs ask for no tracepoint format"))
    with Bench() as bench:
        tables = 0
        for seed in range(FIRST + 1, FIRST + 30):
            try:
                made = unpacked(packed(compiled(seed, target)))
            except CompileError as error:
                if lacks_atomics(error):
                    continue
                raise
            tables += any(name.startswith(".tbl") for name in made.maps)
            if not made.program.called:
                assert bench.differences(made) == ""
        assert tables > 3
