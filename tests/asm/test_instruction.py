"""Instructions are checked when they are built; constructors and the table agree."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from pyebpf.asm import OPS, Form, Instruction, Label, Register, build, find_op, kernel_text
from pyebpf.asm.build import R0, R1, R2, R3, R6, R10
from pyebpf.errors import AssemblyError, Location
from pyebpf.uapi.bpf import ProgramType


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build.mov64(R1, 2**31), "mov64: imm 2147483648 does not fit 32 bits (-2147483648..2147483647)"),
        (lambda: build.mov32(R1, 2**32), "mov32: imm 4294967296 does not fit 32 bits (-2147483648..2147483647)"),
        (lambda: build.lddw(R1, 2**64), "lddw: imm 18446744073709551616 does not fit 64 bits"),
        (lambda: build.lddw(R1, -(2**63) - 1), "lddw: imm -9223372036854775809 does not fit 64 bits"),
        (lambda: build.ldx(4, R1, R2, 32768), "ldxw: offset 32768 does not fit 16 bits (-32768..32767)"),
        (lambda: build.ldx(3, R1, R2), "memory is accessed by 1, 2, 4 or 8 bytes, not 3"),
        (lambda: build.st(1, R1, 0, 256), "stb: value 256 does not fit 1 bytes"),
        (lambda: build.st(2, R1, 0, -32769), "sth: value -32769 does not fit 2 bytes"),
        (lambda: build.st(8, R1, 0, 2**31), "stdw: imm 2147483648 does not fit 32 bits (-2147483648..2147483647)"),
        (lambda: build.jump(-32769), "ja: offset -32769 does not fit 16 bits (-32768..32767)"),
        (lambda: build.load_map_value(R1, "m", -1), "lddw_map_value: offset -1 is outside 0..4294967295"),
        (lambda: build.load_map(R1, -1), "lddw_map: -1 is not a descriptor or id"),
        (lambda: build.load_map(R1, ""), "lddw_map: the symbol is empty"),
        (lambda: build.addr_space_cast(R1, R2, 1, -1), "addr_space_cast: from_space -1 is outside 0..32767"),
        (
            lambda: build.alu("ad64", R1, R2),
            "no operation 'ad64' of this form (did you mean and64 or add64 or mod64?)",
        ),
        (lambda: build.atomic("nand", 8, R1, 0, R2), "no operation 'atomic_nand64' of this form"),
        (lambda: build.atomic("add", 2, R1, 0, R2), "no operation 'atomic_add16' of this form"),
        (lambda: build.movsx(32, R1, R2, width=32), "no operation 'movsx32to32' of this form"),
        (lambda: build.mov64(3, R1), "mov64: dst must be a Register R0 to R10, not 3"),
        (lambda: build.mov64(R1, 1.5), "mov64: imm must be an integer, not 1.5"),
        (lambda: build.add32(R1, "5"), "add32: imm must be an integer, not '5'"),
        (lambda: build.jump_if("jeq", R1, None, 5), "jeq: imm must be an integer, not None"),
        (lambda: build.st(8, R1, 0, R2), "stdw: value must be an integer, not <Register.R2: 2>"),
        (lambda: build.lddw(R1, 2.0), "lddw: imm must be an integer, not 2.0"),
        (lambda: build.ldx(4, R1, R2, 4.0), "ldxw: offset must be an integer, not 4.0"),
        (lambda: build.jump(None), "ja: offset must be an integer, not None"),
        (lambda: Label(""), "a label needs a name"),
        (
            lambda: Instruction(find_op("exit", Form.EXIT), R1),
            "exit: has no operand dst, but was given R1",
        ),
        (
            lambda: Instruction(find_op("mov64", Form.DST_IMM), R1, R2),
            "mov64: has no operand src, but was given R2",
        ),
        (
            lambda: Instruction(find_op("mov64", Form.DST_SRC), R1, R2, 0, 4),
            "mov64: has no operand imm, but was given 4",
        ),
        (
            lambda: Instruction(find_op("neg64", Form.DST), R1, offset=1),
            "neg64: has no operand offset, but was given 1",
        ),
        (
            lambda: Instruction(find_op("mov64", Form.DST_IMM), R1, symbol="x"),
            "mov64: takes no symbol, but was given 'x'",
        ),
        (
            lambda: Instruction(find_op("ja", Form.JUMP), offset=3, symbol="x"),
            "ja: has both the symbol 'x' and the number 3 it stands for",
        ),
    ],
)
def test_operands_out_of_range_raise_when_built(make, message):
    """The operation and the operand are named; nothing is cut."""
    with pytest.raises(AssemblyError, match="^" + re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (build.mov64(R1, 5), "r1 = 5"),
        (build.mov32(R1, 0xFFFF_FFFF), "w1 = -1"),
        (build.add64(R1, R2), "r1 += r2"),
        (build.arsh32(R1, 3), "w1 s>>= 3"),
        (build.sdiv64(R1, R2), "r1 s/= r2"),
        (build.smod32(R1, -3), "w1 s%= -3"),
        (build.neg64(R3), "r3 = -r3"),
        (build.to_be16(R3), "r3 = be16 r3"),
        (build.bswap64(R3), "r3 = bswap64 r3"),
        (build.movsx(8, R1, R2), "r1 = (s8)r2"),
        (build.movsx(16, R1, R2, width=32), "w1 = (s16)w2"),
        (build.lddw(R1, -1), "r1 = 0xffffffffffffffff ll"),
        (build.load_map(R1, "counts"), "r1 = map[counts]"),
        (build.load_map(R1, 7), "r1 = map[fd:7]"),
        (build.load_map_value(R1, "counts", 8), "r1 = map[counts][0] + 8"),
        (build.load_ksym(R1, "runqueues"), "r1 = ksym[runqueues]"),
        (build.load_function(R2, "callback"), "r2 = subprog[callback]"),
        (build.ldx(4, R0, R1, -8), "r0 = *(u32 *)(r1 - 8)"),
        (build.ldx(2, R0, R1, 8, signed=True), "r0 = *(s16 *)(r1 + 8)"),
        (build.ldx(8, R0, R1, signed=True), "r0 = *(u64 *)(r1 + 0)"),
        (build.st(1, R10, -1, 255), "*(u8 *)(r10 - 1) = 255"),
        (build.stx(8, R10, -8, R1), "*(u64 *)(r10 - 8) = r1"),
        (build.atomic("add", 8, R1, 0, R2), "lock *(u64 *)(r1 + 0) += r2"),
        (build.atomic("xor", 4, R1, 0, R2, fetch=True), "w2 = atomic_fetch_xor((u32 *)(r1 + 0), w2)"),
        (build.atomic("xchg", 8, R1, 0, R2), "r2 = xchg_64(r1 + 0, r2)"),
        (build.atomic("cmpxchg", 8, R1, 0, R2), "r0 = cmpxchg_64(r1 + 0, r0, r2)"),
        (build.load_acquire(4, R1, R2, 4), "w1 = load_acquire((u32 *)(r2 + 4))"),
        (build.store_release(8, R1, 4, R2), "store_release((u64 *)(r1 + 4), r2)"),
        (build.load_packet(2, 12), "r0 = *(u16 *)skb[12]"),
        (build.load_packet(2, 12, R3), "r0 = *(u16 *)skb[r3 + 12]"),
        (build.jump("end"), "goto end"),
        (build.jump(-2), "goto -2"),
        (build.gotol("end"), "gotol end"),
        (build.may_goto("end"), "may_goto end"),
        (build.jump_if("jsgt", R1, R2, "end"), "if r1 s> r2 goto end"),
        (build.jump_if("jlt32", R1, 2**32 - 1, "end"), "if w1 < -1 goto end"),
        (build.jump_if("jset", R1, 4, 3), "if r1 & 4 goto +3"),
        (build.call(14), "call 14"),
        (build.call_local("f"), "call f"),
        (build.call_local(-3), "call pc-3"),
        (build.call_kfunc("bpf_iter_num_new"), "call kfunc[bpf_iter_num_new]"),
        (build.call_kfunc(77, 2), "call kfunc[btf:77] module 2"),
        (build.addr_space_cast(R1, R2, 1, 0), "r1 = addr_space_cast(r2, 1, 0)"),
        (build.exit_(), "exit"),
    ],
)
def test_constructors_and_their_text(instruction, text):
    """Each constructor makes the instruction that its name says."""
    assert kernel_text(instruction) == text


def test_whatever_stands_for_an_integer_is_one():
    """Members of enumerations and truth values become plain numbers, in text, too."""
    made = build.mov64(R1, True), build.ldx(4, R1, R2, ProgramType.XDP)
    assert [kernel_text(each) for each in made] == ["r1 = 1", "r1 = *(u32 *)(r2 + 6)"]
    assert {made[0].imm.__class__, made[1].offset.__class__} == {int}


def test_source_location_takes_no_part_in_equality():
    """Instructions from different lines are equal."""
    assert build.mov64(R1, 1, where=Location("a.py", 1)) == build.mov64(R1, 1, where=Location("b.py", 2))


def test_negative_wide_constants_are_their_twos_complement():
    """So that equal bytes are equal instructions."""
    assert build.lddw(R1, -2) == build.lddw(R1, 2**64 - 2)


def test_immediates_of_registers_are_told_from_numbers():
    """Register is an IntEnum; add64(R1, R2) must not become add64(R1, 2)."""
    assert build.add64(R1, R2).op.form is Form.DST_SRC
    assert build.add64(R1, 2).op.form is Form.DST_IMM


@pytest.mark.parametrize(
    ("instruction", "reads", "writes", "clobbers"),
    [
        (build.mov64(R1, R2), "2", "1", ""),
        (build.mov64(R1, 5), "", "1", ""),
        (build.add64(R1, R2), "12", "1", ""),
        (build.add64(R1, 5), "1", "1", ""),
        (build.neg32(R3), "3", "3", ""),
        (build.ldx(8, R1, R2), "2", "1", ""),
        (build.st(8, R1, 0, 0), "1", "", ""),
        (build.stx(8, R1, 0, R2), "12", "", ""),
        (build.atomic("add", 8, R1, 0, R2), "12", "", ""),
        (build.atomic("add", 8, R1, 0, R2, fetch=True), "12", "2", ""),
        (build.atomic("xchg", 8, R1, 0, R2), "12", "2", ""),
        (build.atomic("cmpxchg", 8, R1, 0, R2), "120", "0", ""),
        (build.load_acquire(8, R1, R2), "2", "1", ""),
        (build.store_release(8, R1, 0, R2), "12", "", ""),
        (build.lddw(R6, 1), "", "6", ""),
        (build.call(1), "12345", "0", "12345"),
        (build.load_packet(1, 0, R3), "63", "0", "12345"),
        (build.jump_if("jeq", R1, R2, 0), "12", "", ""),
        (build.jump_if("jeq", R1, 2, 0), "1", "", ""),
        (build.exit_(), "0", "", ""),
    ],
)
def test_registers_read_and_written(instruction, reads, writes, clobbers):
    """What liveness analysis is told about each kind of instruction."""
    assert instruction.reads == tuple(Register(int(c)) for c in reads)
    assert instruction.writes == tuple(Register(int(c)) for c in writes)
    assert instruction.clobbers == tuple(Register(int(c)) for c in clobbers)


@pytest.mark.parametrize(
    ("name", "form", "version", "feature"),
    [
        ("add64", Form.DST_SRC, 1, None),
        ("jlt", Form.JUMP_IMM, 2, None),
        ("jeq32", Form.JUMP_IMM, 3, None),
        ("atomic_add64", Form.STORE, 1, None),
        ("atomic_fetch_add64", Form.STORE, 3, None),
        ("sdiv64", Form.DST_SRC, 4, "sdiv"),
        ("movsx8to64", Form.DST_SRC, 4, "movsx"),
        ("ldxsb", Form.LOAD, 4, "ldsx"),
        ("bswap16", Form.DST, 4, "bswap"),
        ("gotol", Form.JUMP_LONG, 4, "gotol"),
        ("may_goto", Form.JUMP, 4, "may_goto"),
        ("load_acquire8", Form.LOAD, 4, "load_acquire"),
    ],
)
def test_which_version_brought_an_operation(name, form, version, feature):
    """The compiler chooses by these."""
    op = find_op(name, form)
    assert (op.version, op.feature) == (version, feature)


def test_opposite_conditions_are_mutual():
    """Inverting twice gives the same jump, and only jset and jset32 have no opposite."""
    without = set()
    for op in OPS:
        if op.form in (Form.JUMP_IMM, Form.JUMP_REG):
            if op.inverse is None:
                without.add(op.name)
            else:
                assert find_op(op.inverse, op.form).inverse == op.name
    assert without == {"jset", "jset32"}


def test_rows_are_unique_and_stay_so_when_copied():
    """Names with forms are unique; a pickled or deep-copied instruction refers to the same row."""
    assert len({(op.name, op.form) for op in OPS}) == len(OPS)
    instruction = build.add64(R1, R2)
    assert copy.deepcopy(instruction) == instruction
    assert pickle.loads(pickle.dumps(instruction)).op is instruction.op


def test_constructors_cover_the_table():
    """Everything in the table but the map-index loads, which nobody writes by hand, can be built by a function."""
    made = set()
    for name in ("add", "sub", "mul", "div", "sdiv", "or", "and", "lsh", "rsh", "mod", "smod", "xor", "mov", "arsh"):
        for bits in ("32", "64"):
            made |= {getattr(build, name + bits)(R1, operand).op for operand in (R2, 1)}
    made |= {getattr(build, n)(R1).op for n in ("neg64", "neg32", "bswap16", "bswap32", "bswap64")}
    made |= {getattr(build, f"to_{order}{bits}")(R1).op for order in ("le", "be") for bits in (16, 32, 64)}
    made |= {build.movsx(b, R1, R2, width=w).op for b, w in ((8, 32), (16, 32), (8, 64), (16, 64), (32, 64))}
    for size in (1, 2, 4, 8):
        made |= {build.ldx(size, R1, R2, signed=signed).op for signed in (False, True)}
        made |= {build.st(size, R1, 0, 0).op, build.stx(size, R1, 0, R2).op}
        made |= {build.load_acquire(size, R1, R2).op, build.store_release(size, R1, 0, R2).op}
    for size in (1, 2, 4):
        made |= {build.load_packet(size, 0).op, build.load_packet(size, 0, R1).op}
    for size in (4, 8):
        for name in ("add", "or", "and", "xor"):
            made |= {build.atomic(name, size, R1, 0, R2, fetch=fetch).op for fetch in (False, True)}
        made |= {build.atomic(name, size, R1, 0, R2).op for name in ("xchg", "cmpxchg")}
    for op in OPS:
        if op.form in (Form.JUMP_IMM, Form.JUMP_REG):
            made |= {build.jump_if(op.name, R1, operand, "x").op for operand in (R2, 1)}
    made |= {build.jump("x").op, build.gotol("x").op, build.may_goto("x").op, build.exit_().op, build.lddw(R1, 1).op}
    made |= {build.call(1).op, build.call_local("f").op, build.call_kfunc("f").op, build.load_function(R1, "f").op}
    made |= {build.load_map(R1, "m").op, build.load_map_value(R1, "m").op, build.load_ksym(R1, "k").op}
    made |= {build.addr_space_cast(R1, R2, 1, 0).op, build.call_register(R1).op}
    made |= {build.load_map(R1, 7, by_index=True).op, build.load_map_value(R1, 7, by_index=True).op}
    assert [op.name for op in OPS if op not in made] == []
