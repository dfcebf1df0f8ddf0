"""Instruction selection: what each op becomes, for targets with and without the newest instructions."""

from __future__ import annotations

from typing import Any

import pytest

from pyebpf.asm import OPS
from pyebpf.compiler import compile_module, ir
from pyebpf.compiler.ir import Branch, Condition, Op, Return, ValueType
from pyebpf.compiler.machine import MachineBranch
from pyebpf.compiler.passes.legalize import legalize
from pyebpf.compiler.selection import select
from tests.compiler.support import CTX, OLDEST, Builder, Target, seeded_module


def binary(op: Op, number: int) -> list[str]:
    b = Builder()
    b.end(Return(b.emit(op, b.load(0), b.const(number))))
    return b.text()


@pytest.mark.parametrize(
    ("op", "number", "lines"),
    [
        (Op.ADD, 5, ["r0 += 5"]),
        (Op.SUB, 5, ["r0 += -5"]),
        (Op.SUB, -(1 << 31), ["r5 = 0x80000000 ll", "r0 += r5"]),
        (Op.ADD, 0x1234_5678_9ABC, ["r5 = 0x123456789abc ll", "r0 += r5"]),
        (Op.ADD, 0xFFFF_FFF0, ["w5 = -16", "r0 += r5"]),
        (Op.AND, 0xFFFF_FF00, ["w0 &= -256"]),
        (Op.AND, 0xFFFF_FFFF, ["w0 = w0"]),
        (Op.AND, 0xFFFF, ["r0 &= 65535"]),
        (Op.AND, -16, ["r0 &= -16"]),
        (Op.UDIV, 7, ["r0 /= 7"]),
        (Op.UDIV, -7, ["r5 = -7", "r0 /= r5"]),
        (Op.SDIV, -7, ["r0 s/= -7"]),
        (Op.SMOD, 7, ["r0 s%= 7"]),
        (Op.SHL, 70, ["r0 <<= 6"]),
        (Op.ASHR, 63, ["r0 s>>= 63"]),
        (Op.MUL, 24, ["r0 *= 24"]),
    ],
)
def test_arithmetic_with_a_constant(op: Op, number: int, lines: list[str]) -> None:
    """A constant is an immediate where it fits 32 bits, sign-extended, and means the same."""
    text = binary(op, number)
    assert text[0] == "r0 = *(u64 *)(r1 + 0)"
    assert text[-1] == "exit"
    expected = {"r5 = 0x80000000 ll": "w5 = -2147483648"}
    assert text[1:-1] == [expected.get(line, line) for line in lines]


def test_a_division_by_zero_is_no_immediate() -> None:
    """The verifier refuses it; what it means in BPF is folded."""
    assert binary(Op.UDIV, 0) == ["r0 = 0", "exit"]
    assert binary(Op.UMOD, 0) == ["r0 = *(u64 *)(r1 + 0)", "exit"]


def test_the_smallest_programs() -> None:
    """Nothing but the constant."""
    b = Builder()
    b.end(Return(b.const(0)))
    assert b.text() == ["r0 = 0", "exit"]


def test_stores_of_constants() -> None:
    """To the stack one instruction; to the context, where Linux 6.1 refuses that, through a register."""
    b = Builder(slots=(ir.Slot("key", 8),))
    slot = b.emit(Op.SLOT, symbol="key", result=ValueType.POINTER)
    b.emit(Op.STORE, slot, b.const(0xFFFF_FFFF), imm=4, size=4, result=None)
    b.emit(Op.STORE, CTX, b.const(7), imm=8, result=None)
    b.end(Return(b.const(0)))
    assert b.text() == ["*(u32 *)(r10 - 4) = -1", "r0 = 7", "*(u64 *)(r1 + 8) = r0", "r0 = 0", "exit"]


def test_comparisons_as_values() -> None:
    """1 or 0 without another block."""
    b = Builder()
    b.end(Return(b.emit(Op.COMPARE, b.load(0), b.const(3), condition=Condition.SGE)))
    assert b.text() == ["r5 = *(u64 *)(r1 + 0)", "r0 = 1", "if r5 s>= 3 goto L4", "r0 = 0", "exit"]


def test_constants_on_the_left_are_exchanged() -> None:
    """`10 < x` is `x > 10`; addition takes its constant on either side."""
    b = Builder()
    x = b.load(0)
    b.end(Branch(Condition.ULT, b.const(10), b.emit(Op.ADD, b.const(4), x), 1, 2))
    b.end(Return(b.const(1)))
    b.end(Return(b.const(2)))
    assert b.text()[1:3] == ["r0 += 4", "if r0 <= 10 goto L5"]


@pytest.mark.parametrize(
    ("condition", "jump"),
    [
        (Condition.EQ, "jeq"),
        (Condition.NE, "jne"),
        (Condition.ULT, "jgt"),
        (Condition.ULE, "jge"),
        (Condition.UGT, "jlt"),
        (Condition.UGE, "jle"),
        (Condition.SLT, "jsgt"),
        (Condition.SLE, "jsge"),
        (Condition.SGT, "jslt"),
        (Condition.SGE, "jsle"),
        (Condition.SET, "jset"),
    ],
)
def test_a_constant_on_the_left_is_an_immediate(condition: Condition, jump: str) -> None:
    """Whether or not passes have put it on the right: the jump is that of the operands exchanged."""
    b = Builder()
    b.end(Branch(condition, b.const(10), b.load(0), 1, 2))
    b.end(Return(b.const(1)))
    b.end(Return(b.const(2)))
    branch = select(b.function(), {}, 0).blocks[0].terminator
    assert isinstance(branch, MachineBranch)
    assert (branch.test.name, branch.src, branch.imm) == (jump, -1, 10)


@pytest.mark.parametrize("op", [Op.UDIV, Op.UMOD, Op.SDIV, Op.SMOD])
def test_zero_divides_from_a_register(op: Op) -> None:
    """Whether or not passes have folded it: as an immediate the verifier refuses it."""
    b = Builder()
    b.end(Return(b.emit(op, b.load(0), b.const(0))))
    division = select(b.function(), {}, 0).blocks[0].nodes[-1]
    assert division.src >= 0


def test_a_signed_load_of_eight_bytes_needs_no_extension() -> None:
    """Where signed loads are missing only the narrower ones are written in two operations."""
    b = Builder()
    wide, narrow = b.load(0, size=8, signed=True), b.load(1, size=4, signed=True)
    b.end(Return(b.emit(Op.ADD, wide, narrow)))
    function = legalize(b.function(), Target("isa:ldsx"))
    assert [i.op for i in function.blocks[0].instructions] == [Op.LOAD, Op.LOAD, Op.SEXT, Op.ADD]


@pytest.mark.parametrize(("size", "distance"), [(1, 56), (2, 48), (4, 32)])
def test_a_sign_is_extended_by_two_shifts_where_no_move_does(size: int, distance: int) -> None:
    """Up until the sign is the highest bit, and down again."""
    b = Builder()
    b.end(Return(b.emit(Op.SEXT, b.load(0), size=size)))
    assert b.text(Target("isa:movsx"))[1:] == [f"r0 <<= {distance}", f"r0 s>>= {distance}", "exit"]


def test_calls() -> None:
    """Arguments from r1, the result from r0; what the call leaves alone is where it is needed afterwards."""
    b = Builder(slots=(ir.Slot("key", 4, 4),))
    slot = b.emit(Op.SLOT, symbol="key", result=ValueType.POINTER)
    b.emit(Op.STORE, slot, b.load(0), size=4, result=None)
    entry = b.emit(Op.CALL, b.emit(Op.MAP, symbol="m", result=ValueType.MAP), slot, imm=1, result=ValueType.POINTER)
    b.end(Branch(Condition.EQ, entry, b.const(0), 1, 2))
    b.end(Return(b.const(0)))
    b.emit(Op.ATOMIC, entry, b.load(1), symbol="add", result=None)
    b.end(Return(b.const(1)))
    assert b.text() == [
        "r0 = *(u64 *)(r1 + 0)",
        "*(u32 *)(r10 - 4) = r0",
        "r6 = r1",
        "r1 = map[m]",
        "r2 = r10",
        "r2 += -4",
        "call 1",
        "if r0 != 0 goto L11",
        "r0 = 0",
        "exit",
        "r5 = *(u64 *)(r6 + 8)",
        "lock *(u64 *)(r0 + 0) += r5",
        "r0 = 1",
        "exit",
    ]


def test_swaps_need_no_new_instruction() -> None:
    """On a little-endian host `be` reverses bytes, on every kernel."""
    b = Builder()
    b.end(Return(b.emit(Op.SWAP, b.load(0), size=4)))
    assert b.text() == ["r0 = *(u64 *)(r1 + 0)", "r0 = be32 r0", "exit"]


def test_far_offsets() -> None:
    """An offset beyond 16 bits is added first."""
    b = Builder()
    b.end(Return(b.emit(Op.LOAD, CTX, imm=40_000)))
    assert b.text()[:2] == ["r1 += 40000", "r0 = *(u64 *)(r1 + 0)"]


def test_values_of_maps_and_functions() -> None:
    """Their addresses are two-slot loads that keep the name."""
    b = Builder()
    place = b.emit(Op.MAP_VALUE, symbol="state", imm=16, result=ValueType.POINTER)
    b.emit(Op.ATOMIC, place, b.const(1), symbol="add", result=None)
    b.emit(
        Op.CALL,
        b.const(3),
        b.emit(Op.FUNCTION, symbol="step", result=ValueType.POINTER),
        b.const(0),
        b.const(0),
        imm=181,
        result=None,
    )
    b.end(Return(b.const(0)))
    step = Builder((ir.Value(0), ir.Value(1, ValueType.POINTER)))
    step.end(Return(ir.Value(0)))
    code = compile_module(ir.Module((b.function(), step.function("step"))), OLDEST, check=True)
    named = [(i.op.name, i.symbol, i.imm >> 32) for i in code.instructions if i.symbol]
    assert named == [("lddw_map_value", "state", 16), ("lddw_function", "step", 0)]
    assert [(each.name, each.start) for each in code.subprograms] == [("main", 0), ("step", 10)]


#: Features that the instruction table asks for, by our name.
NEW = {"sdiv", "movsx", "ldsx", "bswap", "gotol", "may_goto", "load_acquire", "addr_space_cast"}


def test_old_targets_get_old_instructions() -> None:
    """Whatever the function, nothing newer than what every supported kernel has is emitted."""
    new = {op.name for op in OPS if op.feature in NEW or op.version == 4}
    for seed in range(61):
        code = compile_module(seeded_module(seed), OLDEST)
        assert not {i.op.name for i in code.instructions} & new


def test_kernel_functions_go_by_their_number() -> None:
    """A kernel function of known BTF id is called by it, otherwise by name."""
    for number, expected in ((0, "bpf_thing"), (77, None)):
        b = Builder()
        result: Any = b.emit(Op.CALL_KFUNC, symbol="bpf_thing", imm=number)
        b.end(Return(result))
        call = compile_module(b.module(), OLDEST).instructions[0]
        assert (call.op.name, call.symbol, call.imm) == ("call_kfunc", expected, number)
