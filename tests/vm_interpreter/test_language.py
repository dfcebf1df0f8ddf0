"""Random programs of the language, compiled, in the interpreter: what CPython says of the same source."""

from __future__ import annotations

import pytest

from pyebpf.compiler import compile_with_report
from pyebpf.maps import over
from pyebpf.specs import ProgramSpec
from pyebpf.uapi.bpf import ProgramType
from pyebpf.vm import Machine
from tests.differential.generator import generate
from tests.differential.running import build, by_cpython, fill, inputs_of, outcome, raw_context, used
from tests.dsl.fake_target import FakeTarget

PROGRAMS = 30
FIRST = 2_000_000


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_cpython_and_the_interpreter_agree(seed):
    """Every map afterwards, for several inputs; the machine's maps stay from run to run."""
    program = generate(seed, small=seed % 4 != 0)
    module, specs = build(program, FakeTarget())
    code = compile_with_report(module, FakeTarget()).code
    machine = Machine(specs.values())
    kind = ProgramType.SYSCALL if program.called else ProgramType.RAW_TRACEPOINT
    loaded = machine.load(ProgramSpec("random", kind, code))
    maps = {name: over(machine.maps[name]) for name in specs}
    for number in range(3):
        inputs = inputs_of(3 * seed + number, tuple(used(program)))
        fill(maps, inputs)
        result = machine.run(loaded, raw_context(program, inputs))
        context = bytes(result.context) if program.called else b""
        assert outcome(program, maps, context, result.value) == by_cpython(program, inputs), program.text
