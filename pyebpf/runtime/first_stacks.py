"""Memory for the first stacks: each processor's own supply of the hidden maps is filled before anything is attached.

A map that takes memory as entries come has a supply for each processor (the kernel's bpf_mem_alloc), made with one
entry of stacks' size. Taking it asks for more, which comes by irq_work: where interrupts are off, as at sched_switch,
only after the program, so that of an event's two stacks the second was dropped. A program that keeps a stack and
removes it, run once on each processor, has the supply filled when it returns.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyebpf.asm import build, encode
from pyebpf.builder.intrinsics.stacks import CLASSES, SCRATCH_MAP
from pyebpf.kernel import bpf
from pyebpf.kernel.cpus import online_cpus
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_NO_PREALLOC, BPF_F_TEST_RUN_ON_CPU
from pyebpf.uapi.helper_ids import MAP_DELETE_ELEM, MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.asm import Instruction
    from pyebpf.objects import KernelMap

_KEY = -4
_FINISH = (build.mov64(build.R0, 0), build.exit_())


def make_ready(maps: Mapping[str, KernelMap]) -> None:
    """Fill the supplies of the loaded maps of stacks; where the kernel refuses, the first stacks may be dropped."""
    growing = [maps[each.map] for each in CLASSES if each.map in maps]
    growing = [each for each in growing if each.spec.flags & BPF_F_NO_PREALLOC]
    if not growing:
        return
    code = encode(_program(maps[SCRATCH_MAP].fileno(), [each.fileno() for each in growing]))
    loaded = bpf.prog_load(ProgramType.RAW_TRACEPOINT, code, name="first_stacks")
    if loaded.descriptor is None:
        return
    with loaded.descriptor as descriptor:
        for cpu in online_cpus():
            with suppress(OSError):  # it has gone offline
                bpf.prog_test_run(descriptor.fileno(), flags=BPF_F_TEST_RUN_ON_CPU, cpu=cpu)


def _program(scratch: int, stacks: list[int]) -> list[Instruction]:
    """Keep what is in the scratch buffer, zeros, under the number 0, and remove it, in each map."""
    instructions = [
        build.st(4, build.R10, _KEY, 0),
        *_arguments(scratch),
        build.call(MAP_LOOKUP_ELEM),
        build.mov64(build.R6, build.R0),
        build.jump_if("jne", build.R6, 0, 2),  # over the way out
        *_FINISH,
    ]
    for each in stacks:
        instructions += [
            *_arguments(each),
            build.mov64(build.R3, build.R6),
            build.mov64(build.R4, 0),
            build.call(MAP_UPDATE_ELEM),
            *_arguments(each),
            build.call(MAP_DELETE_ELEM),
        ]
    return [*instructions, *_FINISH]


def _arguments(table: int) -> tuple[Instruction, ...]:
    return (
        build.load_map(build.R1, table),
        build.mov64(build.R2, build.R10),
        build.add64(build.R2, _KEY),
    )
