"""Random programs of the language: CPython over the model, the IR evaluator, and this kernel agree."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from pyebpf.compiler import compile_with_report
from pyebpf.dsl.module import Module
from pyebpf.errors import VerifierError
from pyebpf.objects import Map, Program
from pyebpf.runtime.host import host_target
from pyebpf.specs import ProgramKind, ProgramSpec, RawTracepoint
from tests.differential.generator import generate
from tests.differential.running import OUTPUTS, build, by_cpython, by_evaluator, declare, inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How many; CI asks for 1,000. In an emulated machine, ten times slower, another kernel's verifier is what counts.
PROGRAMS = int(
    os.environ.get("PYEBPF_RANDOM_PROGRAMS", "1000" if "CI" in os.environ and "PYEBPF_VM" not in os.environ else "60")
)
FIRST = int(os.environ.get("PYEBPF_RANDOM_SEED", "0"))
RUNS = 3


@pytest.fixture(scope="module")
def maps() -> Iterator[dict[str, Map]]:
    """The maps that every program uses, made once."""
    with ExitStack() as stack:
        made = {name: Map(declared.spec) for name, declared in declare(Module()).items()}
        for each in made.values():
            stack.callback(each.close)
        yield made


def test_every_leg_agrees(maps: dict[str, Map]) -> None:
    """Each program leaves the same in every map, for several inputs; more than one program in five has spills."""
    target = host_target(lambda: pytest.fail("random programs ask for no tracepoint format"))
    spilled = given_up = 0
    for seed in range(FIRST, FIRST + PROGRAMS):
        program = generate(seed)
        module, specs = build(program, target)
        report = compile_with_report(module, target)
        spilled += report.spilled
        spec = ProgramSpec("random", ProgramKind.RAW_TRACEPOINT, report.code, RawTracepoint("sched_switch"))
        with ExitStack() as stack:
            hidden = {name: Map(each) for name, each in specs.items() if name not in maps}
            for each in hidden.values():
                stack.callback(each.close)
            try:
                loaded = stack.enter_context(closing(Program(spec, {**maps, **hidden})))
            except VerifierError as error:
                # A million steps or 8,192 states were not enough: nothing is said of the program's meaning.
                if "too large" not in error.message and "too complex" not in error.message:
                    raise
                given_up += 1
                continue
            for number in range(RUNS):
                inputs = inputs_of(seed * RUNS + number)
                for name in OUTPUTS:
                    maps[name].clear()
                maps["unsigned"].update(enumerate(inputs.unsigned))
                maps["signed"].update(enumerate(inputs.signed))
                loaded.test_run()
                in_kernel = {name: dict(sorted(maps[name].items())) for name in OUTPUTS}
                expected = by_cpython(program, inputs)
                evaluated = by_evaluator(module, specs, inputs)
                assert evaluated == expected, f"seed {seed}, {inputs}:\n{program.text}"
                assert in_kernel == expected, f"seed {seed}, {inputs}:\n{program.text}"
    assert given_up <= PROGRAMS / 50, f"the verifier gave up on {given_up} of {PROGRAMS} programs"
    assert spilled > PROGRAMS / 5, f"{spilled} of {PROGRAMS} programs spilled"
