"""Instructions that the interpreter runs a second, and what translating costs: `python -m benchmarks.interpreter`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.measure import table
from pyebpf.asm import Instruction, Label
from pyebpf.asm.build import (
    R0,
    R1,
    R2,
    R3,
    R6,
    R7,
    R10,
    add64,
    alu,
    call,
    call_local,
    exit_,
    jump_if,
    ldx,
    load_map,
    load_map_value,
    mov64,
    st,
    stx,
)
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType
from pyebpf.vm import Machine

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS = 200_003
REPEAT = 3
MAPS = (MapSpec("value", MapType.ARRAY, U32, U64, 1), MapSpec("hash", MapType.HASH, U32, U64, 64))


def loop(
    *body: Instruction | Label, before: Sequence[Instruction] = (), after: Sequence[Instruction | Label] = ()
) -> list[Instruction | Label]:
    """`body` ROUNDS times, counted down in R7."""
    start: list[Instruction | Label] = [mov64(R0, 0), mov64(R7, ROUNDS), *before, Label("round")]
    return [*start, *body, alu("sub64", R7, 1), jump_if("jne", R7, 0, "round"), exit_(), *after]


PROGRAMS = {
    "arithmetic, 64 bits": loop(add64(R0, R7), alu("xor64", R0, 5), alu("lsh64", R0, 1), alu("rsh64", R0, 1)),
    "arithmetic, 32 bits": loop(alu("add32", R0, R7), alu("xor32", R0, 5), alu("mul32", R0, 3), alu("rsh32", R0, 1)),
    "stack": loop(
        ldx(8, R1, R10, -8), add64(R1, 1), stx(8, R10, -8, R1), ldx(4, R0, R10, -8), before=[st(8, R10, -8, 0)]
    ),
    "map value": loop(
        ldx(8, R1, R6, 0), add64(R1, 1), stx(8, R6, 0, R1), ldx(4, R0, R6, 0), before=[load_map_value(R6, "value")]
    ),
    "branches": loop(
        jump_if("jset", R7, 1, "odd"),
        add64(R0, 1),
        Label("odd"),
        jump_if("jgt", R7, 1000, "big"),
        add64(R0, 2),
        Label("big"),
    ),
    "local calls": loop(mov64(R1, R7), call_local("f"), after=[Label("f"), mov64(R0, R1), exit_()]),
    "hash look-ups": loop(
        stx(4, R10, -4, R7),
        mov64(R2, R10),
        add64(R2, -4),
        load_map(R1, "hash"),
        call(1),
        before=[st(4, R10, -4, 0)],
    ),
}


def rate(program: list[Instruction | Label]) -> float:
    """Millions of instructions a second: the best of a few runs."""
    steps = len(Machine(MAPS, trace=True).run(program).trace)
    machine = Machine(MAPS)
    loaded = machine.load(program)
    best = 0.0
    for _ in range(REPEAT):
        begun = time.perf_counter()
        machine.run(loaded)
        best = max(best, steps / (time.perf_counter() - begun))
    return best / 1e6


def translation() -> float:
    """Microseconds an instruction, of a long program without loops."""
    program = [mov64(R0, 0), mov64(R3, 1), *(alu("add64", R0, R3) for _ in range(9_973)), exit_()]
    begun = time.perf_counter()
    Machine().load(program)
    return (time.perf_counter() - begun) / len(program) * 1e6


def main() -> None:
    """Print both tables."""
    table(
        ("program", "million instructions a second"),
        [(name, f"{rate(program):.1f}") for name, program in PROGRAMS.items()],
    )
    table(("", "us an instruction"), [("translation", f"{translation():.1f}")])


if __name__ == "__main__":
    main()
