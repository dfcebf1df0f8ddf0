"""What operations compute, and that the interpreter knows the whole table."""

from __future__ import annotations

import pytest

from pyebpf.asm import OPS, Form, Instruction, Label, Raw, Register, find_op
from pyebpf.asm.build import (
    R0,
    R1,
    R2,
    R6,
    R10,
    add64,
    alu,
    call_local,
    exit_,
    jump,
    jump_if,
    lddw,
    ldx,
    load_map,
    may_goto,
    mov64,
    st,
)
from pyebpf.errors import InvalidValue, VmError
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.vm import Machine, run
from pyebpf.vm.semantics import ATOMICS, BINARY, CONDITIONS, UNARY

MASK = (1 << 64) - 1
LEAST64, LEAST32 = 1 << 63, 1 << 31
#: operation, first operand, second operand, result
CASES = [
    ("add64", MASK, 1, 0),
    ("sub64", 0, 1, MASK),
    ("mul64", LEAST64, 2, 0),
    ("div64", 7, 0, 0),
    ("div64", MASK, 2, LEAST64 - 1),
    ("mod64", 7, 0, 7),
    ("sdiv64", LEAST64, MASK, LEAST64),
    ("sdiv64", MASK - 6, 2, MASK - 2),  # -7 / 2 = -3
    ("sdiv64", 5, 0, 0),
    ("smod64", MASK - 6, 2, MASK),  # -7 % 2 = -1
    ("smod64", LEAST64, MASK, 0),
    ("smod64", 5, 0, 5),
    ("add32", 0xFFFF_FFFF, 1, 0),
    ("div32", 0x1_0000_0007, 2, 3),
    ("div32", 7, 1 << 32, 0),
    ("mod32", 0x5_0000_0007, 1 << 32, 7),
    ("sdiv32", LEAST32, 0xFFFF_FFFF, LEAST32),
    ("smod32", 0xFFFF_FFF9, 2, 0xFFFF_FFFF),
    ("smod32", 0x5_0000_0007, 0, 7),
    ("lsh64", 1, 64, 1),
    ("lsh32", 1, 33, 2),
    ("rsh32", 0x1_8000_0000, 31, 1),
    ("arsh64", LEAST64, 63, MASK),
    ("arsh32", LEAST32, 31, 0xFFFF_FFFF),
    ("mov32", 0, MASK, 0xFFFF_FFFF),
    ("movsx8to64", 0, 0x180, MASK - 0x7F),
    ("movsx8to32", 0, 0x180, 0xFFFF_FF80),
    ("movsx32to64", 0, LEAST32, MASK - LEAST32 + 1),
]
UNARY_CASES = [
    ("neg64", 1, MASK),
    ("neg32", 1, 0xFFFF_FFFF),
    ("le16", 0x1_2345, 0x2345),
    ("be16", 0x1_2345, 0x4523),
    ("be32", 0x9_0102_0304, 0x0403_0201),
    ("bswap64", 0x0102_0304_0506_0708, 0x0807_0605_0403_0201),
]
COUNTS = MapSpec("counts", MapType.HASH, U32, U64, 3)


@pytest.mark.parametrize(("name", "first", "second", "result"), CASES)
def test_arithmetic(name, first, second, result):
    """RFC 9669's corners: overflow, division by zero, signs, widths, shift counts."""
    assert run([lddw(R0, first), lddw(R1, second), alu(name, R0, R1), exit_()]).value == result


@pytest.mark.parametrize(("name", "operand", "result"), UNARY_CASES)
def test_one_register(name, operand, result):
    """Negation and byte order."""
    op = next(op for op in OPS if op.name == name)
    assert run([lddw(R0, operand), Instruction(op, R0), exit_()]).value == result


@pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.name}-{op.form.name}")
def test_every_row_of_the_table_runs(op):
    """Each operation with operands that are right for it; so none is forgotten."""
    maps = [
        MapSpec("counts", MapType.ARRAY, U32, U64, 1),
        MapSpec("arena", MapType.ARENA, None, None, 1),
    ]
    machine = Machine(maps, strict=False, kfuncs={7: lambda _vm: 0}, helpers={"get_prandom_u32": lambda _vm: 4})
    machine.descriptors[3] = "counts"
    machine.ksyms[3] = 5
    setup = [mov64(R6, 0), st(8, R10, -8, 1), mov64(R1, 1), mov64(R2, 1), mov64(R0, 1)]
    form = op.form
    dst = R10 if form in (Form.STORE, Form.STORE_IMM) else R2
    src = R10 if form is Form.LOAD else R1
    offset = -8 if form in (Form.LOAD, Form.STORE, Form.STORE_IMM) else 0
    imm = {Form.CALL: 7, Form.CALL_LOCAL: 2, Form.CALL_KFUNC: 7, Form.LDDW_FUNCTION: 3, Form.JUMP_LONG: 0, Form.CAST: 1}
    tested = Instruction(
        op,
        dst if "d" in op.operands else R0,
        src if "s" in op.operands else R0,
        offset if "o" in op.operands and form is not Form.CALL_KFUNC else 0,
        imm.get(form, 3) if "i" in op.operands or "w" in op.operands else 0,
    )
    end = [mov64(R0, 0), exit_(), mov64(R0, 2), exit_()]
    if form is Form.CALL_REGISTER:
        setup.append(Instruction(find_op("lddw_function", Form.LDDW_FUNCTION), R2, imm=4))
    result = machine.run([*setup, tested, *end], packet=bytes(64), program_type=ProgramType.SOCKET_FILTER)
    assert result.value in (0, 1)


def test_semantics_and_table_name_the_same_operations():
    """No row of the interpreter's tables is without an operation."""
    names = {op.name for op in OPS}
    atomics = {n for op in OPS for n in ATOMICS if op.name in (f"atomic_{n}64", f"atomic_fetch_{n}64")}
    assert {*BINARY, *UNARY, *CONDITIONS} <= names
    assert atomics == {*ATOMICS}


def test_registers_must_hold_something():
    """The verifier's words, the place and the registers are in the error."""
    with pytest.raises(VmError, match="R3 !read_ok") as caught:
        run([mov64(R0, 7), add64(R0, Register.R3), exit_()])
    assert (caught.value.slot, caught.value.registers["r0"]) == (1, 7)
    with pytest.raises(VmError, match="R0 !read_ok"):
        run([exit_()])


def test_calls_lose_the_argument_registers_and_keep_the_others():
    """R6 to R9 are the caller's, R1 to R5 are gone after a call."""
    callee = [Label("f"), mov64(R6, 5), mov64(R0, R1), exit_()]
    assert run([mov64(R1, 3), mov64(R6, 11), call_local("f"), add64(R0, R6), exit_(), *callee]).value == 14
    with pytest.raises(VmError, match="R1 !read_ok"):
        run([mov64(R1, 3), call_local("f"), mov64(R0, R1), exit_(), *callee])


def test_eight_frames_are_the_most():
    """A function that calls itself is stopped where the kernel stops it."""
    with pytest.raises(VmError, match="call stack of 9 frames is too deep"):
        run([call_local("f"), exit_(), Label("f"), call_local("f"), exit_()])


def test_endless_loops_end():
    """After `max_steps` instructions."""
    with pytest.raises(VmError, match="infinite loop detected: more than 1009"):
        run([mov64(R0, 0), Label("again"), add64(R0, 1), jump("again")], max_steps=1009)


def test_may_goto_ends_by_itself():
    """After 8 Mi rounds, as the kernel's counter says."""
    program = [mov64(R0, 0), Label("again"), may_goto("done"), add64(R0, 1), jump("again"), Label("done"), exit_()]
    machine = Machine()
    loaded = machine.load(program)
    loaded._scope["may_goto_iterations"] = 1009
    assert machine.run(loaded).value == 1009


def test_the_trace_has_every_instruction():
    """Indices in order, and counts by operation."""
    program = [mov64(R0, 3), Label("again"), alu("sub64", R0, 1), jump_if("jne", R0, 0, "again"), exit_()]
    result = run(program, trace=True)
    assert result.trace == (0, 1, 2, 1, 2, 1, 2, 3)
    assert {op.name: count for op, count in result.executed.items()} == {"mov64": 1, "sub64": 3, "jne": 3, "exit": 1}


def test_dead_code_may_write_the_frame_pointer():
    """The verifier looks only at what can run; what does run is refused at its place."""
    program = [mov64(R0, 7), jump_if("jeq", R0, 7, "end"), mov64(R10, 1), Label("end"), exit_()]
    assert run(program).value == 7
    with pytest.raises(VmError, match="frame pointer is read only") as caught:
        run([mov64(R0, 7), mov64(R10, 1), exit_()])
    assert caught.value.slot == 1


def test_loops_that_may_goto_ends_are_no_endless_ones():
    """However few steps there are: one loop, one in a function called from it, one after it."""
    inner = [Label("f"), may_goto("done"), jump("f"), Label("done"), mov64(R0, 1), exit_()]
    again = [Label("again"), may_goto("out"), mov64(R1, 1), jump("again"), Label("out")]
    second = [Label("more"), may_goto("end"), jump("more"), Label("end")]
    program = [*again, *second, call_local("f"), exit_(), *inner]
    assert run(program, max_steps=10_000).value == 1
    with pytest.raises(VmError, match="infinite loop detected"):
        run([mov64(R0, 0), Label("on"), jump("on"), exit_()], max_steps=10_000)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([jump(5), exit_()], "jump out of range"),
        ([Raw(b"\xff" * 8), exit_()], "slot 0: unknown opcode ff"),
        ([], "at least one instruction"),
    ],
)
def test_what_cannot_run_at_all(program, message):
    """Refused before anything runs."""
    with pytest.raises(InvalidValue, match=message):
        run(program)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([mov64(R0, 0)], "last insn is not an exit or jmp"),
        ([load_map(R1, "absent"), exit_()], "there is no map absent"),
        ([load_map(R1, "count"), exit_()], r"did you mean counts\?"),
        ([load_map(R1, 7), exit_()], "fd 7 is not pointing to valid bpf_map"),
        ([load_map(R1, "counts"), ldx(8, R0, R1, 0), exit_()], "R1 invalid mem access 'map_ptr'"),
    ],
)
def test_refused_on_the_way(program, message):
    """With what the verifier would say."""
    with pytest.raises(VmError, match=message):
        run(program, maps=[COUNTS])
