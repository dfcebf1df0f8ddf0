"""Random functions of IR through the compiler."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from fuzz.choices import Choices
from pyebpf.compiler import compile_module, ir
from pyebpf.compiler.checker import check_module
from pyebpf.compiler.passes import PASSES
from pyebpf.uapi.bpf import ProgramType
from pyebpf.vm import Machine
from tests.compiler.random_ir import CONTEXT, INTERESTING, random_module
from tests.compiler.support import MASK, NEWEST, OLDEST, loadable, run

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/compiler",)
TEXT = False
DICTIONARY: tuple[bytes, ...] = ()


def target(data: bytes) -> None:
    """After every pass the function is valid, returns what it returned before and stores what it stored.

    The bytes choose the context and the function. It then compiles, which the checker of register allocation watches,
    and the interpreter gives for the code what the evaluator gave for the function.
    """
    choices = Choices(data)
    target_kernel = OLDEST if choices.choose(2) else NEWEST
    size, pressure = 5 + choices.choose(40), 2 + choices.choose(14)
    words = [INTERESTING[choices.choose(len(INTERESTING))] & MASK for _ in range(CONTEXT // 8)]
    context = struct.pack(f"<{CONTEXT // 8}Q", *words)
    budget = (1000, 0, 1, 3)[choices.choose(4)]
    module = random_module(choices.choose, size=size, pressure=pressure, may_goto=target_kernel is NEWEST)
    check_module(module, "generating")
    expected = run(module, context, budget)
    functions = module.functions
    for name, change in PASSES:
        functions = tuple(change(function, target_kernel) for function in functions)
        check_module(ir.Module(functions), name)
        assert run(ir.Module(functions), context, budget) == expected, name
    code = loadable(compile_module(module, target_kernel, check=True))
    result = Machine(strict=False).run(code, context, program_type=ProgramType.SYSCALL)
    # The interpreter's budget for loops is the kernel's: no random function comes near it.
    assert (result.value & MASK, bytes(result.context)) == run(module, context)


def seeds() -> Iterable[bytes]:
    """Functions of every size."""
    import random

    for seed in range(23):
        yield random.Random(seed).randbytes(40 + 60 * seed)  # noqa: S311 - the same seeds each time
