"""What the kernel counts about programs: events that found their program running already."""

from __future__ import annotations

import ctypes
import mmap
import os

import pytest

from pyebpf.asm import Instruction, Label, build, layout
from pyebpf.asm.build import R0, R1, R2, R3, R6, R10
from pyebpf.errors import NotFound
from pyebpf.link import attach
from pyebpf.objects import Program
from pyebpf.specs import Code, ProgramKind, ProgramSpec, RawTracepoint, Subprogram
from pyebpf.uapi.helpers import helper


def read_user(address: int) -> tuple[Instruction, ...]:
    """Read eight bytes of user memory; a fault that nobody mends if nothing is mapped there."""
    return (
        build.st(8, R10, -8, 0), build.mov64(R1, R10), build.add64(R1, -8), build.mov64(R2, 8),
        build.lddw(R3, address), build.call(helper("probe_read_user").id),
    )  # fmt: skip


def load(kind: ProgramKind, instructions: tuple[Instruction, ...]) -> Program:
    return Program(ProgramSpec("probe", kind, Code(instructions, (Subprogram("probe", 0),))), {})


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


def test_a_program_that_causes_its_own_event_is_left_out_and_counted(hole):
    """A program on page faults faults itself: 23 times it runs, 23 times its inner event is a recursion miss."""
    probe = layout([
        build.ldx(8, R6, R1, 0), build.lddw(R2, hole), build.jump_if("jne", R6, R2, "end"), *read_user(hole),
        Label("end"), build.mov64(R0, 0), build.exit_(),
    ])  # fmt: skip
    with load(ProgramKind.RAW_TRACEPOINT, probe) as program:
        try:
            link = attach(program, RawTracepoint("page_fault_kernel"))
        except NotFound:
            pytest.skip(f"{os.uname().machine} has no tracepoint page_fault_kernel")
        trigger = (*read_user(hole), build.mov64(R0, 0), build.exit_())
        with link, load(ProgramKind.RAW_TRACEPOINT, trigger) as other:
            for _ in range(23):
                other.test_run()
            assert program.recursion_misses == 23
