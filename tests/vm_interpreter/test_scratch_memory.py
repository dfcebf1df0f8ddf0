"""Scratch memory of programs whose records are too large for the stack, around a tail call that finds no program."""

from __future__ import annotations

import pytest

from pyebpf import BPF, Struct, char, field, u32, u64
from pyebpf.testing import Simulation
from pyebpf.vm import loaded
from tests.dsl.fake_target import FakeTarget

OPENAT = "syscalls:sys_enter_openat"


class Wide(Struct):
    number: u64
    name: str = field(char[600])


@pytest.mark.parametrize("atomics", [True, False])
@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        ((0, 0), None),
        ((1, 0), "scratch memory taken by a run that this one interrupted"),
        ((0, 1), "scratch memory used by another run during a tail call that found no program"),
    ],
)
def test_what_another_run_does_meanwhile(monkeypatch, meanwhile, reason, atomics):
    """The memory is free during the call; a run that had it, or has it, ends this one, and keeps what it has."""
    bpf = BPF()
    table = bpf.program_array(size=2, name="table")
    kept = bpf.hash(key=u32, value=Wide, name="kept")

    @bpf.tracepoint(OPENAT)
    def on_open(dfd: int) -> None:
        record = Wide(number=dfd, name="kept")
        table.tail_call(1)
        kept[1] = record

    target = FakeTarget(missing=frozenset({"isa:may_goto"} if atomics else {"isa:may_goto", "isa:atomic"}))
    seen = []

    def words(program):
        """The addresses of the two words that the memory begins with, on the processor that runs the program."""
        (memory,) = (each for each in program.maps.values() if each.name.startswith(".scratch"))
        return memory.lookup(bytes(4), 0), memory.lookup(bytes(4), 0) + 8

    def tail_call(self, *_):
        access, (taken, claims) = self.machine.memory, words(self.machine)
        seen.append((access.loads[8, False](taken), access.loads[8, False](claims)))
        access.stores[8](taken, meanwhile[0])
        access.stores[8](claims, seen[-1][1] + meanwhile[1])

    monkeypatch.setattr(loaded.LoadedProgram, "_tail_call", tail_call)
    with Simulation(bpf, target) as kernel:
        for attempt in (1, 2):
            kernel.tracepoint(OPENAT, dfd=7)
            assert kernel.machine.memory.loads[8, False](words(kernel.machine)[0]) == meanwhile[0]
            if reason is None:
                assert dict(kept.items()) == {1: Wide(7, "kept")}
            else:
                assert not len(kept)
            assert dict(bpf.dropped) == ({} if reason is None else {reason: attempt})
        # A second run finds the memory taken if another has it, and is left before its tail call.
        assert seen == ([(0, 1)] if meanwhile[0] else [(0, 1), (0, 2 + meanwhile[1])])


@pytest.mark.parametrize("taken", [0, 1, 7, 8])
def test_tasks_are_preempted_in_uprobes(taken):
    """Each run takes the first memory that nobody has, and leaves those of others as they are."""
    bpf = BPF()
    kept = bpf.hash(key=u32, value=Wide, name="kept")

    @bpf.uprobe("libc.so.6", "getpid")
    def on_call() -> None:
        kept[1] = Wide(number=7, name="kept")
        kept[2] = Wide(number=8, name="kept")

    with Simulation(bpf, FakeTarget()) as kernel:
        (memory,) = (each for each in kernel.machine.maps.values() if each.name.startswith(".scratch"))
        access = kernel.machine.memory
        words = [memory.lookup(number.to_bytes(4, "little"), 0) for number in range(8)]
        for word in words[:taken]:
            access.stores[8](word, 1)
        kernel.user_function("getpid")
        assert len(kept) == (2 if taken < 8 else 0)
        assert sum(bpf.dropped.values()) == (taken == 8)
        assert [access.loads[8, False](word) for word in words] == [1] * taken + [0] * (8 - taken)
