"""What the kernel counts about programs: events that found their program running already."""

from __future__ import annotations

import ctypes
import mmap

import pytest

from pyebpf.asm import Instruction, Label, build, layout
from pyebpf.asm.build import R0, R1, R2, R3, R6, R10
from pyebpf.attach.tracepoints import RawTracepoint
from pyebpf.errors import NotFound
from pyebpf.link import attach
from pyebpf.objects import Map, Program
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import helper
from tests.support.needs import needs


def read_user(address: int) -> tuple[Instruction, ...]:
    """Read a byte of user memory; one fault if nothing is mapped there, on some processors and kernels two."""
    return (
        build.st(8, R10, -8, 0), build.mov64(R1, R10), build.add64(R1, -8), build.mov64(R2, 1),
        build.lddw(R3, address), build.call(helper("probe_read_user").id),
    )  # fmt: skip


def load(instructions: tuple[Instruction, ...], runs: Map) -> Program:
    code = Code(instructions, (FunctionStart("probe", 0),))
    return Program(ProgramSpec("probe", ProgramType.RAW_TRACEPOINT, code), {"runs": runs})


@pytest.fixture
def hole():
    """The address of a page of this process that nothing is mapped at."""
    with mmap.mmap(-1, 3 * mmap.PAGESIZE) as memory:
        view = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(view) + mmap.PAGESIZE
        libc = ctypes.CDLL(None, use_errno=True)
        protect = libc.mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        assert protect(address, mmap.PAGESIZE, 0) == 0
        yield address
        assert protect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0
        del view


@pytest.fixture
def runs():
    with Map(MapSpec("runs", MapType.ARRAY, U32, U64, 1)) as counts:
        yield counts


def test_a_program_that_causes_its_own_event_is_left_out_and_counted(hole, runs):
    """A program on page faults faults itself: each time it runs, its own faults are recursion misses."""
    needs("kernel:6.1")  # before, it is entered again, until the stack is full
    probe = layout([
        build.ldx(8, R6, R1, 0), build.lddw(R2, hole), build.jump_if("jne", R6, R2, "end"),
        build.st(4, R10, -4, 0), build.load_map(R1, "runs"), build.mov64(R2, R10), build.add64(R2, -4),
        build.call(helper("map_lookup_elem").id), build.jump_if("jeq", R0, 0, "end"), build.mov64(R1, 1),
        build.atomic("add", 8, R0, 0, R1), *read_user(hole), Label("end"), build.mov64(R0, 0), build.exit_(),
    ])  # fmt: skip
    with load(probe, runs) as program:
        try:
            link = attach(program, RawTracepoint("page_fault_kernel"))
        except NotFound:
            needs("tracepoint:exceptions:page_fault_kernel")
            raise
        with link, load((*read_user(hole), build.mov64(R0, 0), build.exit_()), runs) as other:
            for _ in range(23):
                other.test_run()
            faults = runs[0] // 23  # of one read
            assert faults in {1, 2}
            assert runs[0] == 23 * faults
            assert program.recursion_misses == 23 * faults * faults
