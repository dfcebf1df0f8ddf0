"""Bodies of another front end, written by hand: loaded, attached and run by this kernel, beside Python's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyebpf import BPF, Struct, u64
from pyebpf.builder.intrinsics.task import process_number
from pyebpf.builder.values.comparisons import compare
from tests.support.by_hand import HERE, HandBody, HandSubprogram, leave
from tests.support.needs import needs

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

CALLS = 23
ME = os.getpid()


class Call(Struct):
    """What a program that Python runs is given."""

    count: u64
    answer: u64


def counting(bpf: Any) -> Any:
    """A map of calls by process, counted by a body at a tracepoint."""
    calls = bpf.hash(key=u64, value=u64)

    def build(p: ProgramBuilder) -> None:
        process = process_number(p)
        with p.b.if_(compare(p, "==", process, ME)):
            calls.augment_item(p, process, "+", 1)
        leave(p)

    bpf.tracepoint("syscalls:sys_enter_getppid")(HandBody("count_calls", build, maps={"calls": calls}))
    return calls


def test_a_body_written_by_hand_is_attached_and_counts():
    """Each call of this process, named as the body names its map, beside a probe in Python."""
    bpf = BPF()
    calls = counting(bpf)
    seen = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def in_python() -> None:
        seen[0] += 1

    with bpf:
        for _ in range(CALLS):
            os.getppid()
        assert dict(calls.items()) == {ME: CALLS}
        assert seen[0] >= CALLS
        assert bpf["calls"] is calls
        (line, _) = bpf.attachments
        assert line.startswith("count_calls: ")
        program = next(each for each in bpf.programs.values() if each.name == "count_calls")
        assert HERE in {each.where for each in program.spec.code.instructions}


def test_subprograms_of_both_front_ends_pass_the_verifier_in_one_program():
    """One by hand and one in Python, each called from a body by hand and from a probe in Python."""
    needs("program:syscall")
    bpf: Any = BPF()

    def doubling(p: ProgramBuilder, number: Any) -> None:
        leave(p, p.binary("*", number, 2))

    double: Any = HandSubprogram("double", {"number": u64}, u64, doubling)

    @bpf.subprogram
    def add_up(count: u64) -> u64:
        total = 0
        for each in range(100):
            if each < count:
                total += each
        return total

    def build(p: ProgramBuilder) -> None:
        count = p.program_context.attribute(p, "count")
        p.program_context.set_attribute(p, "answer", double.call(p, [add_up.call(p, [count], {})], {}))
        leave(p, 0)

    by_hand = bpf.syscall(Call)(HandBody("by_hand", build))

    @bpf.syscall(Call)
    def in_python(ctx: Call) -> int:
        ctx.answer = double(add_up(ctx.count))
        return 0

    with bpf:
        for probe in (by_hand, in_python):
            assert probe.run(Call(count=CALLS, answer=0)).record.answer == CALLS * (CALLS - 1)
