"""Random programs of the language, compiled, in the interpreter: what CPython says of the same source."""

from __future__ import annotations

import pytest

from pyebpf.compiler import compile_with_report
from pyebpf.specs import ProgramKind, ProgramSpec
from pyebpf.testing.backends import MapBackend
from pyebpf.vm import Machine
from tests.differential.generator import generate
from tests.differential.running import OUTPUTS, build, by_cpython, inputs_of
from tests.dsl.fake_target import FakeTarget

PROGRAMS = 30
FIRST = 2_000_000


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_cpython_and_the_interpreter_agree(seed):
    """Every map afterwards, for several inputs; the machine's maps stay from run to run."""
    program = generate(seed)
    module, specs = build(program, FakeTarget())
    code = compile_with_report(module, FakeTarget()).code
    machine = Machine(specs.values())
    loaded = machine.load(ProgramSpec("random", ProgramKind.RAW_TRACEPOINT, code))
    maps = {name: MapBackend(machine.maps[name]) for name in specs}
    for number in range(3):
        inputs = inputs_of(3 * seed + number)
        for name in OUTPUTS:
            if name in maps:
                maps[name].clear()
        for name, values in (("unsigned", inputs.unsigned), ("signed", inputs.signed)):
            if name in maps:
                maps[name].update(enumerate(values))
        machine.run(loaded, bytes(96))
        expected = by_cpython(program, inputs)
        assert {name: dict(sorted(maps[name].items())) for name in OUTPUTS if name in maps} == {
            name: expected[name] for name in OUTPUTS if name in maps
        }, program.text
