"""Verifier refusals of real probes, each mapped to its Python line and said in one useful line.

Every probe here is right and compiles; then one thing is taken away from it: a check of the compiler is switched off,
or one instruction of the result is changed. What the verifier then refuses must point to the line marked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf import Struct, array, char, comm, compiler, field as member, now, pid, u32, u64
from pyebpf.asm.build import R0, R6, R9, R10
from pyebpf.asm.op import Form
from pyebpf.builder.ssa.function import FunctionBuilder
from pyebpf.builder.values import restating
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_RDONLY_PROG
from pyebpf.verifier.messages import VERIFIER_MESSAGES
from tests.support.needs import needs
from tests.support.refused import Edit, marked, provoke

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.context import KernelObject
    from pyebpf.dsl.module import Module

SYSCALL = {"type": ProgramType.SYSCALL, "flags": 1 << 4}  # BPF_F_SLEEPABLE
LOOK_UP, GET_COMM, SKB_LOAD_BYTES, RESERVE, SUBMIT = 1, 16, 26, 131, 132


class Entry(Struct):
    seen: u64
    values: u32 = member(array(u32, 6))


class Event(Struct):
    at: u64
    pid: u32
    name: str = member(char[16])


class Long(Struct):
    name: str = member(char[256])


# -- the probes ------------------------------------------------------------------------------------------------------


def counting(bpf: Module) -> None:
    """A look-up, a check, counts in a map's entry, arithmetic."""
    entries = bpf.hash(key=u32, value=Entry, name="entries")
    table = bpf.array(value=u64, size=7, name="table")
    events = bpf.ringbuf(Event, name="events")

    @bpf.tracepoint("sched:sched_switch")
    def count(next_pid: int) -> None:  # <- parameters
        entry = entries.get(pid())  # <- look-up
        if entry is None:  # <- check
            return
        entry.seen += 1  # <- seen
        entry.values[next_pid & 3] += 1  # <- element
        table[3] = now() // 7 << 2  # <- arithmetic
        events.emit(  # <- record
            Event(
                at=now(),
                pid=next_pid,
                name=comm(),
            )
        )


def unchecked(bpf: Module) -> None:
    """No None check: the compiler's own error, were it not switched off."""
    entries = bpf.hash(key=u32, value=Entry, name="entries")

    @bpf.tracepoint("sched:sched_switch")
    def count() -> None:
        entry = entries.get(pid())
        entry.seen += 1  # <- no None check


def unchecked_element(bpf: Module) -> None:
    """No None check before an address is computed."""
    entries = bpf.hash(key=u32, value=Entry, name="entries")

    @bpf.tracepoint("sched:sched_switch")
    def count(next_pid: int) -> None:
        entry = entries.get(pid())
        entry.values[next_pid & 3] += 1  # <- no None check of an array


def unbounded(bpf: Module) -> None:
    """An index without bounds."""
    entries = bpf.hash(key=u32, value=Entry, name="entries")

    @bpf.tracepoint("sched:sched_switch")
    def count(next_pid: int) -> None:
        entry = entries.get(pid())
        if entry is not None:
            entry.values[next_pid] += 1  # <- no bounds check


def sending(bpf: Module) -> None:
    """A record sent through a ring buffer, over several lines."""
    events = bpf.ringbuf(Event, name="events")

    @bpf.tracepoint("sched:sched_switch")
    def send(next_pid: int) -> None:
        events.emit(  # <- emit
            Event(
                at=now(),
                pid=next_pid,
                name=comm(),  # <- name
            )
        )


def looping(bpf: Module) -> None:
    """A loop with a bound."""
    table = bpf.array(value=u64, size=7, name="table")

    @bpf.tracepoint("sched:sched_switch")
    def loop() -> None:
        total: u64 = 0
        for i in range(5):  # <- loop
            total += now() >> i
        table[0] = total  # <- end


def kernel_objects(bpf: Module) -> None:
    """Pointers whose types the verifier knows."""
    table = bpf.array(value=u64, size=7, name="table")

    @bpf.btf_tracepoint("sched_switch")
    def switch(prev: KernelObject) -> None:  # <- arguments
        start = prev.start_time  # <- member
        first = prev.mm  # <- pointer
        if first is not None:
            table[0] = start


def copying(bpf: Module) -> None:
    """Kernel memory read by a helper for GPL programs only."""
    table = bpf.array(value=u64, size=7, name="table")

    @bpf.raw_tracepoint("sched_switch")
    def switch(prev: KernelObject) -> None:
        table[0] = prev.start_time  # <- copy


def frames(bpf: Module) -> None:
    """Functions whose frames are over 512 bytes together."""
    entries = bpf.hash(key=Long, value=u64, name="entries")

    @bpf.subprogram
    def inner(number: u64) -> u64:
        return entries.get(Long(name=comm()), 0) + number

    @bpf.tracepoint("sched:sched_switch")
    def outer() -> None:
        entries[Long(name=comm())] = inner(now())  # <- frames


def deep(bpf: Module) -> None:
    """Functions within functions: more than eight, than sixteen on Linux 7.3."""
    table = bpf.array(value=u64, size=7, name="table")

    def around(call: Any) -> Any:
        @bpf.subprogram
        def inner(number: u64) -> u64:
            return call(number) + 1  # <- many functions

        return inner

    def innermost(number: int) -> int:
        return number

    last: Any = innermost
    for _ in range(16):
        last = around(last)

    @bpf.tracepoint("sched:sched_switch")
    def outermost() -> None:
        table[0] = last(now())


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One refusal: its row of VERIFIER_MESSAGES, the line, the probe, what is taken away, words in the message."""

    name: str
    tag: str
    declare: Callable[[Module], None]
    edits: tuple[Edit, ...] = ()
    words: str = ""
    off: tuple[tuple[object, str, object], ...] = ()
    program: dict[str, Any] = field(default_factory=dict)
    maps: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}: {self.tag}"


NONE_CHECK_OFF = ((FunctionBuilder, "is_non_null", lambda *_: True),)
BOUNDS_CHECK_OFF = (
    (FunctionBuilder, "bounds", lambda *_: (0, 0)),
    (restating, "restated", lambda _p, number, _low, _high: number),
)
CALL_CHECK_OFF = ((compiler, "check_call_chains", lambda *_: None),)
ROWS = (
    # a check of the compiler switched off
    Row("null-deref", "no None check", unchecked, off=NONE_CHECK_OFF, words="may be None"),
    Row("null-arithmetic", "no None check of an array", unchecked_element, off=NONE_CHECK_OFF),
    Row("unbounded-arithmetic", "no bounds check", unbounded, off=BOUNDS_CHECK_OFF),
    # one instruction of a look-up changed
    Row("null-deref", "seen", counting, (Edit("check", "jne|jeq", changes={"dst": R6}),)),
    Row("stack-bounds", "look-up", counting, (Edit("look-up", "stxw", changes={"offset": -520}),)),
    Row("uninitialised", "look-up", counting, (Edit("look-up", "mov64", changes={"src": R9}),), words="R9"),
    Row("frame-pointer", "look-up", counting, (Edit("look-up", "add64", changes={"dst": R10}),)),
    Row("map-kind", "record", counting, (Edit("record", "lddw_map", changes={"symbol": "entries"}),)),
    Row("map-descriptor", "look-up", counting, (Edit("look-up", "lddw_map", changes={"symbol": None, "imm": 9999}),)),
    Row("helper-kind", "look-up", counting, (Edit("look-up", "call", 1, changes={"imm": SKB_LOAD_BYTES}),)),
    Row("helper-invalid", "look-up", counting, (Edit("look-up", "call", changes={"imm": 9999}),)),
    Row("argument-type", "look-up", counting, (Edit("look-up", "call", 1, changes={"imm": GET_COMM}),), "R1"),
    # its result, used in another way
    Row("misaligned", "seen", counting, (Edit("seen", "atomic_add64", changes={"offset": 4}),)),
    Row("map-value-bounds", "seen", counting, (Edit("seen", "atomic_add64", changes={"offset": 32}),)),
    Row("opcode", "seen", counting, (Edit("seen", "mov64", opcode=0xEF),)),
    Row("map-value-bounds", "element", counting, (Edit("element", "and64", changes={"imm": 63}),), words="max value"),
    Row("pointer-operator", "element", counting, (Edit("element", "add64", becomes=("mul64", Form.DST_IMM)),)),
    Row("pointer-bitwise", "element", counting, (Edit("element", "add64", becomes=("or64", Form.DST_IMM)),)),
    Row("pointer-32", "element", counting, (Edit("element", "add64", becomes=("add32", Form.DST_IMM)),)),
    Row("pointer-pointer", "element", counting, (Edit("element", "add64", 1, changes={"src": R10}),)),
    Row("division", "arithmetic", counting, (Edit("arithmetic", "div64", changes={"imm": 0}),)),
    Row("shift", "arithmetic", counting, (Edit("arithmetic", "lsh64", changes={"imm": 64}),)),
    Row("read-only", "arithmetic", counting, maps={"table": {"flags": BPF_F_RDONLY_PROG}}),
    # the context
    Row("context-access", "parameters", counting, (Edit("parameters", "ldxsw|ldxw", changes={"offset": 8190}),)),
    # records
    Row("null-deref", "emit", sending, (Edit("emit", "jne|jeq", changes={"dst": R6}),), words="may be None"),
    Row("leak", "emit", sending, (Edit("emit", "call", helper=SUBMIT, nothing=True),)),
    Row("release", "name", sending, (Edit("name", "call", helper=GET_COMM, changes={"imm": SUBMIT}),)),
    Row("memory-bounds", "emit", sending, (Edit("emit", "mov64", 1, changes={"imm": 16}),)),
    # control flow
    Row(
        "unreachable",
        "arithmetic",
        counting,
        (Edit("arithmetic", "div64", becomes=("exit", Form.EXIT), changes={"imm": 0}),),
    ),
    Row("jump-range", "check", counting, (Edit("check", "jne|jeq", changes={"offset": 900}),)),
    Row("infinite-loop", "loop", looping, (Edit("loop", "add64", changes={"imm": 0}),)),
    Row("no-exit", "end", looping, (Edit("end", "exit", becomes=("mov64", Form.DST_SRC)),)),
    # kernel types
    Row("argument-index", "arguments", kernel_objects, (Edit("arguments", "ldxdw", changes={"offset": 72}),)),
    Row("context-access", "arguments", kernel_objects, (Edit("arguments", "ldxdw", changes={"offset": 4}),)),
    Row("beyond-struct", "member", kernel_objects, (Edit("member", "ldxdw", changes={"offset": 32000}),)),
    Row("kernel-offset", "member", kernel_objects, (Edit("member", "ldxdw", changes={"offset": -8}),)),
    Row(
        "kernel-write",
        "member",
        kernel_objects,
        (Edit("member", "ldxdw", becomes=("stxdw", Form.STORE), changes={"dst": R0, "src": R0}),),
    ),
    Row("member-width", "pointer", kernel_objects, (Edit("pointer", "ldxdw", becomes=("ldxw", Form.LOAD)),)),
    Row("helper-gpl", "copy", copying, program={"license": "Proprietary"}),
    Row("attach-target", "arguments", kernel_objects, program={"attach_btf": 1}),
    # limits
    # As a tracepoint program it passes since Linux 6.13, which gives some kinds a private stack.
    Row("stack-size", "frames", frames, off=CALL_CHECK_OFF, program=SYSCALL),
    Row("call-depth", "many functions", deep, off=CALL_CHECK_OFF),
)


def cause_of(name: str) -> str:
    return next(row.cause for row in VERIFIER_MESSAGES if row.name == name)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_refusal_points_to_its_python_line(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the place, the kernel's words and the likely cause; the source with a caret; the whole log."""
    if row.program is SYSCALL:
        needs("program:syscall")
    if row.name == "release":
        needs("kernel:6.1")  # Linux 5.10 takes a record back at any address
    for owner, name, instead in row.off:
        monkeypatch.setattr(owner, name, instead)
    error = provoke(row.declare, *row.edits, program=row.program, maps=row.maps)
    assert error is not None, "the verifier takes it"
    line = marked(__file__, row.tag)
    first, source, caret = str(error).splitlines()
    assert cause_of(row.name) in first, f"{first}\n{error.log[-600:]}"
    assert row.words in first
    assert error.location is not None
    assert (error.location.file, error.location.line) == (__file__, line), first
    assert first.startswith(f"{__file__}:{line}: ")
    assert source.strip().endswith(f"# <- {row.tag}")
    assert set(caret.strip()) == {"^"}
    assert len(error.log) > len(error.message) / 2
