"""The compiler against the kernel: random functions give there what the evaluator gives.

For this kernel's own instruction set, and for the oldest.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from pyebpf.compiler import compile_with_report, ir
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return, ValueType
from pyebpf.features import Features
from pyebpf.kernel import bpf
from pyebpf.uapi.bpf import ProgramType
from tests.compiler.random_ir import CONTEXT
from tests.compiler.support import CTX, OLDEST, Builder, contexts, loadable, run, seeded_module
from tests.support.needs import needs

if TYPE_CHECKING:
    from pyebpf.compiler.features import Features as Target

#: This kernel.
HERE = Features()
#: BPF_F_SLEEPABLE, which syscall programs need.
SLEEPABLE = 1 << 4
LOG_SIZE = 1 << 20
#: Random functions to compare; emulated machines are ten times slower.
COUNT = 31 if "PYEBPF_VM" in os.environ else 151


def in_kernel(module: ir.Module, target: Target, context: bytes) -> tuple[int, bytes, bool]:
    """The low half of what the program returns, the context afterwards, and whether anything was spilled."""
    needs("program:syscall")
    report = compile_with_report(module, target, check=True)
    code = loadable(report.code)
    result = bpf.prog_load(ProgramType.SYSCALL, code, name="random", flags=SLEEPABLE)
    if result.descriptor is None:
        log = bpf.prog_load(
            ProgramType.SYSCALL, code, name="random", flags=SLEEPABLE, log_level=1, log_size=LOG_SIZE
        ).log
        pytest.fail(f"refused with errno {result.errno}: {log[-1000:]}")
    with result.descriptor as program:
        ran = bpf.prog_test_run(program.fileno(), context=context, in_place=True)
    return ran.retval, ran.context, report.spilled


@pytest.mark.parametrize("target", [HERE, OLDEST], ids=["here", "oldest"])
def test_random_functions_agree(target: Target) -> None:
    """Random functions with branches, loops, calls, atomics and stack; at least one in five spills."""
    spilled = 0
    for seed in range(COUNT):
        chance = random.Random(seed)
        size, pressure = chance.choice((15, 40, 80)), chance.choice((5, 8, 14))
        module = seeded_module(seed, size, pressure, may_goto=target.has("isa:may_goto"))
        context = contexts(seed)
        returned, expected = run(module, context)
        low, after, did_spill = in_kernel(module, target, context)
        assert (low, after) == (returned & 0xFFFF_FFFF, expected), seed
        spilled += did_spill
    assert spilled >= COUNT // 5


def test_a_checked_index_survives_being_spilled() -> None:
    """A number bounds-checked and then kept in memory over a call is still a good index: REFINE stores it anew."""
    for number, expected in ((3, 3 * 7), (11, 0), (8, 0)):
        b = Builder(slots=(ir.Slot("table", 8, 1),))
        table = b.emit(Op.SLOT, symbol="table", result=ValueType.POINTER)
        for place in range(8):
            b.emit(Op.STORE, table, b.const(place * 7), imm=place, size=1, result=None)
        index = b.load(0)
        b.end(Branch(Condition.UGE, index, b.const(8), 1, 2))
        b.end(Return(b.const(0)))
        refined = b.emit(Op.REFINE, index)
        others = [b.load(n) for n in range(1, 6)]
        b.emit(Op.CALL, imm=5, result=None)
        total = others[0]
        for value in others[1:]:
            total = b.emit(Op.XOR, total, value)
        b.emit(Op.STORE, CTX, total, imm=56, result=None)
        place = b.emit(
            Op.OFFSET, b.emit(Op.SLOT, symbol="table", result=ValueType.POINTER), refined, result=ValueType.POINTER
        )
        b.end(Return(b.emit(Op.LOAD, place, size=1)))
        context = number.to_bytes(8, "little") + bytes(CONTEXT - 8)
        returned, after, spilled = in_kernel(b.module(), HERE, context)
        assert spilled
        assert (returned, after) == (expected, context)


def test_subprograms_and_callbacks() -> None:
    """Calls within the program, five arguments deep, keep what lives across them."""
    b = Builder()
    words = [b.load(n) for n in range(5)]
    once = b.emit(Op.CALL_LOCAL, *words, symbol="mix")
    twice = b.emit(Op.CALL_LOCAL, once, *reversed(words[1:]), symbol="mix")
    b.emit(Op.STORE, CTX, twice, imm=40, result=None)
    b.end(Return(b.emit(Op.XOR, once, words[4])))
    parameters = tuple(ir.Value(n) for n in range(5))
    mix = Builder(parameters)
    total = parameters[0]
    for number, value in enumerate(parameters[1:], 3):
        total = mix.emit(Op.ADD, mix.emit(Op.MUL, total, mix.const(2 * number + 1)), value)
    mix.end(Return(total))
    module = ir.Module((b.function(), mix.function("mix")))
    context = contexts(3)
    returned, expected = run(module, context)
    low, after, _ = in_kernel(module, OLDEST, context)
    assert (low, after) == (returned & 0xFFFF_FFFF, expected)


@pytest.mark.parametrize("count", [11, 17, 31])
def test_loops_with_more_variables_than_registers(count: int) -> None:
    """Loop-carried variables in memory turn in step with those in registers."""
    b = Builder()
    start = [b.emit(Op.ADD, b.load(n % 4), b.const(n)) for n in range(count)]
    b.end(Jump(1, (b.const(0), *start)))
    counter = b.value()
    carried = [b.value() for _ in range(count)]
    b.end(Branch(Condition.ULT, counter, b.const(7), 2, 3), [counter, *carried])
    rotated = [*carried[1:], b.emit(Op.ADD, carried[0], counter)]
    b.end(Jump(1, (b.emit(Op.ADD, counter, b.const(1)), *rotated)))
    total = carried[0]
    for value in carried[1:]:
        total = b.emit(Op.ADD, b.emit(Op.MUL, total, b.const(31)), value)
    b.emit(Op.STORE, CTX, total, imm=56, result=None)
    b.end(Return(total))
    context = contexts(count)
    returned, expected = run(b.module(), context)
    low, after, spilled = in_kernel(b.module(), HERE, context)
    assert spilled
    assert (low, after) == (returned & 0xFFFF_FFFF, expected)
