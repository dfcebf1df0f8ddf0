"""Program arrays and tail calls in programs written in Python, in the kernel and in the interpreter."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, Struct, u32, u64
from pyebpf.errors import InvalidValue, NotLoaded
from tests.support.simulated import simulated
from tests.support.system_calls import GETPGID, NO_PROCESS, getpgid


class Step(Struct):
    step: u32
    number: u32


def machine() -> BPF:
    """0 counts and goes on with 1, which sends; 2 calls itself until the kernel ends it; 3 is empty."""
    bpf = BPF()
    steps = bpf.program_array(size=5, name="steps")
    seen = bpf.array(value=u64, size=4, name="seen")
    sent = bpf.ringbuf(Step, name="sent")

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def enter(pid: int) -> None:
        if pid >= NO_PROCESS:
            seen[0] += 1
            steps.tail_call(pid - NO_PROCESS)
            seen[3] += 1

    @steps.entry(0, like=enter)
    def count() -> None:
        seen[1] += 1
        steps.tail_call(1)
        seen[2] += 1000

    @steps.entry(1, like=count)
    def send(pid: int) -> None:
        sent.emit(Step(step=1, number=pid - NO_PROCESS))

    @steps.entry(2, like=enter)
    def again() -> None:
        seen[2] += 1
        steps.tail_call(2)

    return bpf


def expected(bpf: BPF) -> None:
    seen = bpf["seen"]
    # Two of 0, three of 1, one of 2; 3 is empty, and 7 and 5 lie outside.
    assert list(seen.values()) == [9, 2, 33, 3]
    assert [(record.step, record.number) for record in bpf["sent"].poll()] == [(1, 0), (1, 1), (1, 0), (1, 1), (1, 1)]
    assert not bpf.dropped


def test_programs_go_on_with_others():
    """What follows a tail call runs only without a program there; 33 in a row are the kernel's limit."""
    bpf = machine()
    with bpf:
        assert list(bpf["steps"]) == [0, 1, 2]
        getpgid(0, 1, 0, 2, 1, 1, 3, 7, 5)
        expected(bpf)


def test_the_interpreter_agrees():
    """The same programs, the same counts."""
    bpf = machine()
    with simulated(bpf) as kernel:
        assert list(bpf["steps"]) == [0, 1, 2]
        for number in (0, 1, 0, 2, 1, 1, 3, 7, 5):
            kernel.tracepoint("syscalls:sys_enter_getpgid", pid=NO_PROCESS + number)
        expected(bpf)


def test_programs_are_taken_out_and_put_in_while_others_run():
    """`del` empties a place, a loaded program fills it."""
    bpf = BPF()
    steps = bpf.program_array(size=2, name="steps")
    seen = bpf.array(value=u64, size=3, name="seen")

    @bpf.raw_tracepoint("sys_enter")
    def enter(id) -> None:  # noqa: A002 - the tracepoint's name
        if id == GETPGID:
            steps.tail_call(0)
            seen[0] += 1

    @steps.entry(0, like=enter)
    def first(id) -> None:  # noqa: A002 - the tracepoint's name
        seen[1] += id

    @steps.entry(1, like=enter)
    def second() -> None:
        seen[2] += 1

    with pytest.raises(NotLoaded):
        len(steps)
    with bpf:
        getpgid(*range(7))
        del steps[0]
        assert (0 in steps, list(steps)) == (False, [1])
        getpgid(*range(5))
        second_program = next(each for name, each in bpf.programs.items() if name.startswith("second"))
        steps[0] = second_program
        assert steps[0] == steps[1] == second_program.info().id
        getpgid(*range(3))
        assert list(seen.values()) == [5, 7 * GETPGID, 3]


def test_what_is_no_entry_is_refused():
    """With the fix."""
    bpf = BPF()
    steps = bpf.program_array(size=3, name="steps")

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def enter() -> None:
        steps.tail_call(3)

    with pytest.raises(CompileError, match="index 3 is outside the program array steps, which has 3 entries"):
        bpf.specs()
    with pytest.raises(InvalidValue, match="has the indices 0 to 2"):
        steps.entry(3, like=enter)
    with pytest.raises(InvalidValue, match="give the probe that makes the tail call"):
        steps.entry(0, like=machine)
