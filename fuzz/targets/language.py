"""Random programs of the language: CPython beside the compiler's evaluator."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from fuzz.choices import ByteRandom
from pyebpf.compiler import compile_with_report, ir
from pyebpf.compiler.passes import run_passes
from tests.differential.generator import generate_from
from tests.differential.running import build, by_cpython, by_evaluator, inputs_of, used
from tests.dsl.fake_target import FakeTarget

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/builder", "pyebpf/dsl", "pyebpf/compiler/passes")
TEXT = False
DICTIONARY: tuple[bytes, ...] = ()


def target(data: bytes) -> None:
    """The program that the bytes choose leaves the same in every map however it is run, and compiles.

    It is run by CPython over the model's numbers, by the evaluator as it was built, and by the evaluator after all
    passes.
    """
    number = zlib.crc32(data)
    program = generate_from(ByteRandom(data), number)
    kernel = FakeTarget()
    module, specs = build(program, kernel)
    inputs = inputs_of(number, tuple(used(program)))
    expected = by_cpython(program, inputs)
    assert by_evaluator(program, module, specs, inputs) == expected, program.text
    changed = ir.Module(tuple(run_passes(function, kernel, check=True) for function in module.functions))
    assert by_evaluator(program, changed, specs, inputs) == expected, program.text
    compile_with_report(module, kernel, check=number % 4 == 0)


def seeds() -> Iterable[bytes]:
    """Programs of every size."""
    import random

    for seed in range(23):
        yield random.Random(seed).randbytes(50 + 40 * seed)  # noqa: S311 - the same seeds each time
