"""Compile time against program size: `python -m benchmarks.compile_time`.

Probes of straight code, branches, loops and map accesses in equal parts, ever longer, for a made-up kernel: no root.
Times are of the processor, least of a few rounds. Linear compilation shows as a constant number of microseconds for
each instruction of the intermediate representation.
"""

from __future__ import annotations

import gc
import time

from benchmarks.measure import median, table
from pyebpf.builder.lost import LossTable
from pyebpf.compiler import compile_module
from pyebpf.dsl.programs import build_program
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import probe

SIZES = (100, 300, 1_000, 3_000, 10_000, 20_000)
ROUNDS = 3
#: Some 40 instructions of the intermediate representation.
PART = """
mixed = (mixed * 31 + count) ^ (mixed >> {shift})
if mixed & {mask} == 0:
    results[{slot}] = mixed
elif count > {shift}:
    counts[{slot}] += 1
for i in range(3):
    total += mixed // (i + {shift})
"""


def source(parts: int) -> str:
    """The body of a probe."""
    body = [
        PART.format(shift=1 + number % 13, mask=(1 << number % 11) - 1, slot=number % 16) for number in range(parts)
    ]
    return "".join(["mixed = count\ntotal = u64(0)\n", *body, "results[0] = total\n"])


def measure(parts: int) -> tuple[int, int, float, float]:
    """Instructions before and after, and the seconds for translating and for compiling the probe."""
    made = probe(source(parts), "count: u64")
    target = FakeTarget()
    translated, compiled = [], []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.process_time()
        module = build_program(made, made.attachments[0], target, LossTable(), "probe").module
        between = time.process_time()
        code = compile_module(module, target)
        compiled.append(time.process_time() - between)
        translated.append(between - began)
    before = sum(len(block.instructions) + 1 for function in module.functions for block in function.blocks)
    return before, len(code.instructions), min(translated), min(compiled)


def main() -> None:
    """Print a row for each size."""
    gc.disable()  # as the command does until all is attached
    small, *_ = measure(1)
    larger, *_ = measure(11)
    each = (larger - small) / 10
    rows = []
    for size in SIZES:
        before, after, translated, compiled = measure(max(1, round(size / each)))
        rows.append(
            (
                f"{before}",
                f"{after}",
                f"{translated * 1e3:.1f}",
                f"{compiled * 1e3:.1f}",
                f"{(translated + compiled) / before * 1e6:.1f}",
            )
        )
    table(("IR instructions", "BPF instructions", "translate ms", "compile ms", "µs an IR instruction"), rows)
    growth = [float(row[-1]) for row in rows]
    print(f"largest over median cost of an instruction: {max(growth) / median(growth):.2f}")


if __name__ == "__main__":
    main()
