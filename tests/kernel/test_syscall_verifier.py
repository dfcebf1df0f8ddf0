"""Each kind of verifier refusal, provoked by hand-made instructions: the right line, the right explanation."""

from __future__ import annotations

import re

import pytest

from pyebpf.asm import Instruction, build
from pyebpf.asm.build import R0, R1, R2, R3, R4, R5, R6, R10
from pyebpf.btf import Kind
from pyebpf.dataclass import replace
from pyebpf.errors import Location, VerifierError
from pyebpf.objects import Map, Program
from pyebpf.runtime.host import kernel_btf
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64, array_of
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.flags import BPF_F_RDONLY_PROG
from pyebpf.uapi.helpers import helper
from pyebpf.verifier.messages import VERIFIER_MESSAGES
from tests.support.needs import needs
from tests.support.release import kernel_release

MAPS = (
    MapSpec("counts", MapType.HASH, U32, U64, 16),
    MapSpec("table", MapType.ARRAY, U32, array_of(U64, 4), 1),
    MapSpec("fixed", MapType.ARRAY, U32, U64, 1, flags=BPF_F_RDONLY_PROG),
    MapSpec("ring", MapType.RINGBUF, None, None, 4096),
    MapSpec("closed", MapType.ARRAY, U32, U64, 1, flags=1 << 8),  # BPF_F_WRONLY_PROG
    MapSpec("storage", MapType.CGROUP_STORAGE, array_of(U64, 2), U64, 0),
)
CLS, SKB = ProgramType.SCHED_CLS, ProgramType.CGROUP_SKB
TRACEPOINT, XDP = ProgramType.TRACEPOINT, ProgramType.XDP
SWITCH = "btf_trace_sched_switch"
RETURN = (build.mov64(R0, 0), build.exit_())


def call(name: str) -> Instruction:
    return build.call(helper(name).id)


NUMBER = call("get_prandom_u32")


def look_up(name: str) -> tuple[Instruction, ...]:
    return (
        build.st(4, R10, -4, 0),
        build.load_map(R1, name),
        build.mov64(R2, R10),
        build.add64(R2, -4),
        call("map_lookup_elem"),
    )


def found(name: str) -> tuple[Instruction, ...]:
    """R0: the value, checked."""
    return (*look_up(name), build.jump_if("jne", R0, 0, 2), *RETURN)


def reserve() -> tuple[Instruction, ...]:
    return (
        build.load_map(R1, "ring"),
        build.mov64(R2, 16),
        build.mov64(R3, 0),
        call("ringbuf_reserve"),
        build.jump_if("jne", R0, 0, 2),
        *RETURN,
    )


def submit(*, mark: bool = False) -> tuple[Instruction, ...]:
    last = call("ringbuf_submit")
    return build.mov64(R1, R0), build.mov64(R2, 0), bad(last) if mark else last


def read_with_size(*size: Instruction) -> tuple[Instruction, ...]:
    """A helper reads R2 bytes of the stack; R0 is any number before `size`."""
    return (
        NUMBER, *size, build.st(8, R10, -8, 0), build.mov64(R1, R10), build.add64(R1, -8),
        build.mov64(R3, 0), bad(call("probe_read_kernel")), *RETURN,
    )  # fmt: skip


def bad(instruction: Instruction) -> Instruction:
    """Mark the instruction that is to be refused."""
    return replace(instruction, where=Location("probe.py", 42, 4, 9, "    the culprit\n"))


# Name of the table's row, kind of program, instructions.
PROVOKED: dict[str, tuple[ProgramType, tuple[Instruction, ...]]] = {
    "null-deref": (TRACEPOINT, (*look_up("counts"), bad(build.ldx(8, R1, R0)), *RETURN)),
    "null-arithmetic": (TRACEPOINT, (*look_up("counts"), bad(build.add64(R0, 4)), *RETURN)),
    "scalar-deref": (TRACEPOINT, (NUMBER, bad(build.ldx(8, R1, R0)), *RETURN)),
    "wrong-deref": (XDP, (build.ldx(4, R3, R1, 4), bad(build.ldx(1, R0, R3)), *RETURN)),
    "uninitialised": (TRACEPOINT, (bad(build.mov64(R0, R3)), build.exit_())),
    "argument-type": (
        TRACEPOINT,
        (build.mov64(R1, 5), build.mov64(R2, R10), bad(call("map_lookup_elem")), *RETURN),
    ),
    "not-constant": (
        TRACEPOINT,
        (
            NUMBER,
            build.mov64(R2, R0),
            build.load_map(R1, "ring"),
            build.mov64(R3, 0),
            bad(call("ringbuf_reserve")),
            *RETURN,
        ),
    ),
    "map-value-bounds": (TRACEPOINT, (*found("table"), bad(build.ldx(8, R1, R0, 32)), *RETURN)),
    "unbounded-arithmetic": (
        TRACEPOINT,
        (*found("table"), build.mov64(R6, R0), NUMBER, bad(build.add64(R6, R0)), build.ldx(8, R1, R6), *RETURN),
    ),
    "arithmetic-out-of-bounds": (
        TRACEPOINT,
        (*found("table"), build.add64(R0, (1 << 29) - 1), bad(build.add64(R0, (1 << 29) - 1)), *RETURN),
    ),
    "negative-index": (TRACEPOINT, read_with_size(build.mov64(R2, R0))),
    "unbounded-index": (TRACEPOINT, read_with_size(build.mov64(R2, R0), build.rsh64(R2, 1))),
    "zero-size": (
        TRACEPOINT,
        (build.mov64(R1, R10), build.add64(R1, -16), build.mov64(R2, 0), bad(call("get_current_comm")), *RETURN),
    ),
    "memory-bounds": (TRACEPOINT, (*reserve(), bad(build.st(8, R0, 16, 0)), *submit(), *RETURN)),
    "packet-bounds": (
        XDP,
        (build.ldx(4, R2, R1, 0), build.ldx(4, R3, R1, 4), bad(build.ldx(1, R0, R2)), build.exit_()),
    ),
    "stack-bounds": (TRACEPOINT, (bad(build.st(8, R10, -520, 0)), *RETURN)),
    "stack-spill": (TRACEPOINT, (build.stx(8, R10, -8, R1), bad(build.ldx(4, R0, R10, -8)), *RETURN)),
    "frame-pointer": (TRACEPOINT, (bad(build.mov64(R10, 1)), *RETURN)),
    "context-access": (XDP, (bad(build.ldx(8, R0, R1, 0)), build.exit_())),
    "context-modified": (
        TRACEPOINT,  # Linux 7.3 lets the context be moved by a number that is known
        (build.mov64(R6, R1), NUMBER, build.and64(R0, 8), build.add64(R6, R0), bad(build.ldx(8, R0, R6, 8)), *RETURN),
    ),
    "context-store": (XDP, (build.mov64(R2, 1), bad(build.atomic("add", 4, R1, 0, R2)), *RETURN)),
    "read-only": (TRACEPOINT, (*found("fixed"), bad(build.st(8, R0, 0, 1)), *RETURN)),
    "pointer-bitwise": (TRACEPOINT, (*found("table"), bad(build.and64(R0, 7)), *RETURN)),
    "pointer-32": (TRACEPOINT, (*found("table"), bad(build.add32(R0, 7)), *RETURN)),
    "pointer-pointer": (TRACEPOINT, (*found("table"), build.mov64(R1, R10), bad(build.add64(R0, R1)), *RETURN)),
    "pointer-operator": (TRACEPOINT, (*found("table"), bad(build.mul64(R0, 7)), *RETURN)),
    "pointer-subtract": (TRACEPOINT, (build.mov64(R0, 5), bad(build.sub64(R0, R10)), *RETURN)),
    "mixed-pointers": (
        TRACEPOINT,
        (
            build.st(8, R10, -8, 0),
            build.mov64(R6, R1),
            NUMBER,
            build.jump_if("jeq", R0, 0, 2),
            build.mov64(R6, R10),
            build.add64(R6, -16),
            bad(build.ldx(8, R0, R6, 8)),
            *RETURN,
        ),
    ),
    "division": (TRACEPOINT, (build.mov64(R0, 1), bad(build.div64(R0, 0)), *RETURN)),
    "shift": (TRACEPOINT, (build.mov64(R0, 1), bad(build.lsh64(R0, 64)), *RETURN)),
    "misaligned": (TRACEPOINT, (bad(build.st(8, R10, -12, 0)), *RETURN)),
    "infinite-loop": (TRACEPOINT, (build.mov64(R0, 0), bad(build.jump_if("jeq", R0, 0, -1)), *RETURN)),
    "unreachable": (TRACEPOINT, (*RETURN, bad(build.mov64(R0, 1)), build.exit_())),
    "jump-range": (TRACEPOINT, (bad(build.jump(9)), *RETURN)),
    "helper-kind": (TRACEPOINT, (bad(call("skb_load_bytes")), *RETURN)),
    "helper-invalid": (TRACEPOINT, (bad(build.call(9999)), *RETURN)),
    "instruction-kind": (TRACEPOINT, (build.mov64(R6, R1), bad(build.load_packet(4, 0)), *RETURN)),
    "map-kind": (
        TRACEPOINT,
        (
            build.load_map(R1, "counts"),
            build.mov64(R2, 16),
            build.mov64(R3, 0),
            bad(call("ringbuf_reserve")),
            *RETURN,
        ),
    ),
    "leak": (TRACEPOINT, (*reserve()[:3], bad(reserve()[3]), *reserve()[4:], *RETURN)),
    "release": (TRACEPOINT, (*reserve(), build.add64(R0, 8), *submit(mark=True), *RETURN)),
}

# Names of rows that stand for more than one message, or kinds of program.
PROVOKED |= {
    "socket-access": (
        CLS,
        (build.ldx(8, R2, R1, 168), build.jump_if("jne", R2, 0, 2), *RETURN, bad(build.ldx(8, R0, R2)), *RETURN),
    ),
    "negative-offset": (CLS, (build.add64(R1, -8), bad(build.ldx(4, R0, R1)), *RETURN)),
    "write-only": (TRACEPOINT, (*found("closed"), bad(build.ldx(8, R1, R0)), *RETURN)),
    "map-value-address": (TRACEPOINT, (bad(build.load_map_value(R1, "table", 40)), *RETURN)),
    "helper-packet": (
        CLS,
        (
            build.ldx(4, R3, R1, 76), build.ldx(4, R2, R1, 80), build.mov64(R0, R3), build.add64(R0, 8),
            build.jump_if("jle", R0, R2, 2), *RETURN,
            build.mov64(R2, 0), build.mov64(R4, 8), build.mov64(R5, 0), bad(call("skb_store_bytes")), *RETURN,
        ),
    ),
    "call-destination": (TRACEPOINT, (build.call_local(1), *RETURN, bad(build.call_local(99)), *RETURN)),
    "return-unknown": (SKB, (build.mov64(R0, R1), bad(build.exit_()))),
    "cgroup-storage-flags": (
        SKB,
        (build.load_map(R1, "storage"), build.mov64(R2, 1), bad(call("get_local_storage")), *RETURN),
    ),
}  # fmt: skip

# The same with BTF: attach type, BTF name to attach to, instructions.
TYPED: dict[str, tuple[AttachType, str, tuple[Instruction, ...]]] = {
    "argument-index": (AttachType.TRACE_RAW_TP, SWITCH, (bad(build.ldx(8, R0, R1, 72)), *RETURN)),
    "beyond-struct": (
        AttachType.TRACE_RAW_TP,
        SWITCH,
        (build.ldx(8, R2, R1, 8), bad(build.ldx(8, R0, R2, 32000)), *RETURN),
    ),
    "kernel-write": (
        AttachType.TRACE_RAW_TP,
        SWITCH,
        (build.ldx(8, R2, R1, 8), bad(build.st(8, R2, 0, 1)), *RETURN),
    ),
    "kernel-offset": (
        AttachType.TRACE_RAW_TP,
        SWITCH,
        (build.ldx(8, R2, R1, 8), bad(build.ldx(8, R0, R2, -8)), *RETURN),
    ),
    "return-range": (AttachType.TRACE_ITER, "bpf_iter_task", (build.mov64(R0, 7), bad(build.exit_()))),
}


def refusal(
    kind: ProgramType,
    instructions: tuple[Instruction, ...],
    functions: tuple[FunctionStart, ...] = (FunctionStart("probe", 0),),
    **options: object,
) -> VerifierError:
    code = Code(instructions, functions)
    maps = {spec.name: Map(spec) for spec in MAPS}
    try:
        with pytest.raises(VerifierError) as caught:
            Program(ProgramSpec("probe", kind, code, **options), maps)
    finally:
        for used in maps.values():
            used.close()
    return caught.value


def check(name: str, error: VerifierError) -> None:
    rows = [row for row in VERIFIER_MESSAGES if row.name == name]
    assert rows[0].cause in error.message
    assert any(re.search(row.pattern, error.message) for row in rows), "the kernel's own words are lost"
    assert error.location is not None
    assert error.location.line == 42
    assert "processed" in error.log


@pytest.mark.parametrize("name", PROVOKED)
def test_a_refusal_is_explained_at_the_line_that_caused_it(name):
    """Each row of the table that can be provoked by hand: its own cause, and the Python line of the culprit."""
    kind, instructions = PROVOKED[name]
    if name == "release":
        needs("kernel:6.1")  # Linux 5.10 takes a record back at any address
    if name == "negative-offset" and kernel_release() < (6, 1):
        name = "context-modified"  # in that kernel's words
    check(name, refusal(kind, instructions))


@pytest.mark.parametrize("name", TYPED)
def test_a_refusal_about_kernel_types_is_explained_at_its_line(name):
    """The same for programs whose arguments the verifier knows by BTF."""
    attach_type, target, instructions = TYPED[name]
    kind = Kind.FUNC if attach_type is AttachType.TRACE_ITER else Kind.TYPEDEF
    number = kernel_btf().find(target, {kind})[0]
    check(name, refusal(ProgramType.TRACING, instructions, expected_attach_type=attach_type, attach_btf=number))


ENDLESS = {
    "back to itself": (build.mov64(R0, 0), build.jump_if("jeq", R0, 0, -1)),
    "after a call": (NUMBER, build.jump_if("jgt", R0, 5, -2)),
    "either way": (NUMBER, build.jump_if("jgt", R0, 5, 1), build.jump(-3), build.jump_if("jne", R0, 100, -4)),
    "after two calls": (build.mov64(R6, 1), NUMBER, NUMBER, build.jump_if("jset", R0, 1, -3)),
}


@pytest.mark.parametrize("placed", [True, False], ids=["one line", "no lines"])
@pytest.mark.parametrize("name", ENDLESS)
def test_a_loop_without_end_is_told_in_the_kernels_words(name, placed):
    """Where no line of source comes between, the kernel writes "infinite loop detected" on the line of the jump."""
    code = tuple(bad(each) if placed else each for each in (*ENDLESS[name], *RETURN))
    error = refusal(ProgramType.SOCKET_FILTER, code)
    assert "infinite loop detected at insn " in error.message
    assert "state" not in error.message
    assert next(row.cause for row in VERIFIER_MESSAGES if row.name == "infinite-loop") in error.message


def test_a_helper_for_gpl_programs_names_the_licence():
    """A probe that declares another licence may not call probe_read_kernel."""
    instructions = (
        build.mov64(R1, R10), build.add64(R1, -8), build.mov64(R2, 8), build.mov64(R3, 0),
        bad(call("probe_read_kernel")), *RETURN,
    )  # fmt: skip
    check("helper-gpl", refusal(TRACEPOINT, instructions, license="MIT"))


def test_a_run_time_index_is_named_with_its_register():
    """What the message adds on a second line, the register that may lie outside, is part of the one line."""
    instructions = (
        *found("table"), build.mov64(R6, R0), NUMBER, build.and64(R0, 0x3F), build.add64(R6, R0),
        bad(build.ldx(8, R1, R6)), *RETURN,
    )  # fmt: skip
    error = refusal(TRACEPOINT, instructions)
    check("map-value-bounds", error)
    assert "R6 max value is outside of the allowed memory range" in error.message
    assert "(R6 is an entry of " in error.message or "(R6 is a map entry)" in error.message


def frames(*sizes: int) -> tuple[tuple[Instruction, ...], tuple[FunctionStart, ...]]:
    """Functions that call one another in turn, each with so much stack."""
    instructions: list[Instruction] = []
    functions: list[FunctionStart] = []
    for index, size in enumerate(sizes):
        functions.append(FunctionStart(f"f{index}", len(instructions)))
        instructions.append(build.st(8, R10, -size, 0))
        if index + 1 < len(sizes):
            instructions.append(build.call_local(f"f{index + 1}"))
        instructions += RETURN
    return tuple(instructions), tuple(functions)


@pytest.mark.parametrize(("name", "sizes"), [("stack-size", (400, 400)), ("call-depth", (8,) * 17)])
def test_limits_of_frames_are_explained_without_a_line(name, sizes):
    """The verifier names no instruction for what several functions sum up to."""
    instructions, functions = frames(*sizes)
    error = refusal(ProgramType.SOCKET_FILTER, instructions, functions)
    assert next(row.cause for row in VERIFIER_MESSAGES if row.name == name) in error.message


def test_a_log_of_a_million_steps_is_read_to_its_end():
    """The log is as long as it needs to be: the message comes last, on Linux 6.1 too, which keeps a log's head."""
    instructions = (
        build.mov64(R6, 0), build.add64(R6, 1), build.jump_if("jne", R6, 20_000, -2), bad(build.mov64(R10, 0)), *RETURN,
    )  # fmt: skip
    error = refusal(TRACEPOINT, instructions)
    assert len(error.log) > 1 << 17
    check("frame-pointer", error)


def test_more_than_twenty_five_kinds_of_refusal_are_provoked():
    """The table is not decoration."""
    assert len(PROVOKED) + len(TYPED) > 25
