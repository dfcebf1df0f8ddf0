"""Compiled programs in the interpreter: what the evaluator says, and no byte read before it was written."""

from __future__ import annotations

import random

import pytest

from pyebpf.compiler import compile_module
from pyebpf.specs import ProgramSpec
from pyebpf.uapi.bpf import ProgramType
from pyebpf.vm import Machine
from tests.compiler.support import NEWEST, OLDEST, contexts, run, seeded_module

COUNT = 101


@pytest.mark.parametrize("target", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_random_functions_agree(target):
    """Branches, loops, calls, atomics, spills: R0, all 64 bits, and the context afterwards."""
    for seed in range(COUNT):
        chance = random.Random(seed)
        module = seeded_module(seed, size=chance.choice((15, 40, 80)), pressure=chance.choice((5, 8, 14)))
        spec = ProgramSpec("random", ProgramType.SYSCALL, compile_module(module, target))
        context = contexts(seed)
        result = Machine(helpers={"jiffies64": lambda _vm: 0}).run(spec, context)
        assert (result.value, result.context) == run(module, context), seed
