"""Programs made of instructions that fill ring and perf buffers with records whose first eight bytes count them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.asm import Instruction, Label, build, layout
from pyebpf.asm.build import R0, R1, R2, R3, R4, R5, R6, R10
from pyebpf.features import Features
from pyebpf.objects import KernelMap, Map, Program, make_map
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import helper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.asm import Item

BPF_F_CURRENT_CPU = 0xFFFFFFFF


def call(name: str) -> Instruction:
    """The call of a helper."""
    return build.call(helper(name).id)


def numbered() -> list[Item]:
    """On the stack, from -40 on: the run's number, counted from 0 in the map `serial`; 0x41; 0x41. Ends at "end"."""
    return [
        build.st(4, R10, -4, 0), build.load_map(R1, "serial"), build.mov64(R2, R10), build.add64(R2, -4),
        call("map_lookup_elem"), build.jump_if("jeq", R0, 0, "end"), *_counted(), build.stx(8, R10, -40, R1),
        build.st(8, R10, -32, 0x41), build.st(8, R10, -24, 0x41),
    ]  # fmt: skip


def _counted() -> list[Item]:
    """R1: the number at R0, which is one more afterwards."""
    if Features().has("isa:atomic"):
        return [build.mov64(R1, 1), build.atomic("add", 8, R0, 0, R1, fetch=True)]
    # Before Linux 5.12 in two steps: no two runs are at the same time here.
    return [build.ldx(8, R1, R0), build.mov64(R2, 1), build.atomic("add", 8, R0, 0, R2)]


def end() -> list[Item]:
    """The way out."""
    return [Label("end"), build.mov64(R0, 0), build.exit_()]


def perf_emitter(length: int) -> tuple[Instruction, ...]:
    """Each run sends its own number, counted from 0, to the perf buffer of the processor that it runs on."""
    return layout([
        build.mov64(R6, R1), *numbered(),
        build.mov64(R1, R6), build.load_map(R2, "events"), build.lddw(R3, BPF_F_CURRENT_CPU), build.mov64(R4, R10),
        build.add64(R4, -40), build.mov64(R5, length), call("perf_event_output"), *end(),
    ])  # fmt: skip


def perf_program(array: KernelMap, serial: Map, length: int, name: str = "emit") -> Program:
    """A program that sends `length` bytes to the perf buffers of `array`."""
    code = Code(perf_emitter(length), (FunctionStart(name, 0),))
    return Program(ProgramSpec(name, ProgramType.RAW_TRACEPOINT, code), {"events": array, "serial": serial})


@contextmanager
def perf_rig() -> Iterator[tuple[KernelMap, Program]]:
    """An array of perf buffers, and a program that sends 16 bytes to it."""
    with (
        make_map(MapSpec("events", MapType.PERF_EVENT_ARRAY, None, None, 0)) as array,
        Map(MapSpec("serial", MapType.ARRAY, U32, U64, 1)) as serial,
        perf_program(array, serial, 16) as program,
    ):
        yield array, program
