"""Compiled code, run instruction by instruction in the interpreter, does what its IR does in the evaluator."""

from __future__ import annotations

import random

import pytest

from pyebpf.compiler import compile_module, ir
from pyebpf.compiler.ir import MayGoto
from pyebpf.uapi.bpf import ProgramType
from pyebpf.vm import Machine
from tests.compiler.support import MASK, NEWEST, OLDEST, Target, contexts, loadable, run, seeded_module

COUNT = 61


def interpreted(module: ir.Module, target: Target, context: bytes) -> tuple[int, bytes]:
    """What the compiled code returns, and the context afterwards."""
    machine = Machine(strict=False)
    result = machine.run(loadable(compile_module(module, target)), context, program_type=ProgramType.SYSCALL)
    return result.value & MASK, bytes(result.context)


@pytest.mark.parametrize("target", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_random_functions_agree(target: Target) -> None:
    """Selection, allocation and emission keep what passes left: all 64 bits of the result, and every store."""
    for seed in range(COUNT):
        chance = random.Random(seed)
        size, pressure = chance.choice((15, 40, 80)), chance.choice((5, 8, 14))
        module = seeded_module(seed, size, pressure, may_goto=target is NEWEST)
        context = contexts(seed)
        assert interpreted(module, target, context) == run(module, context), seed


def test_some_of_them_ask_the_budget() -> None:
    """The generator makes loops that end by `may_goto`."""
    modules = [seeded_module(seed, may_goto=True) for seed in range(COUNT)]
    asking = sum(
        any(isinstance(block.terminator, MayGoto) for function in module.functions for block in function.blocks)
        for module in modules
    )
    assert asking >= COUNT // 5
