"""Bytes: RFC 9669's layout, both byte orders, and LLVM's assembler as an oracle."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given, strategies as st

from pyebpf.asm import OPS, Form, Instruction, Label, Register, decode, encode, find_op, kernel_text, parse
from pyebpf.asm.build import R0, R1, R2, R3, R10, exit_, lddw, load_map_value, mov64, stx
from pyebpf.errors import AssemblyError

S16 = st.integers(-0x8000, 0x7FFF)
S32 = st.integers(-0x8000_0000, 0x7FFF_FFFF)
U64 = st.integers(0, 2**64 - 1)
REGISTERS = st.sampled_from(Register)


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    op = draw(st.sampled_from(OPS))
    operands = op.operands
    return Instruction(
        op,
        draw(REGISTERS) if "d" in operands else R0,
        draw(REGISTERS) if "s" in operands else R0,
        draw(S16) if "o" in operands else 0,
        draw(U64) if "w" in operands else draw(S32) if "i" in operands else 0,
    )


@given(st.lists(instructions(), max_size=20), st.sampled_from(["little", "big"]))
def test_decoding_gives_back_what_was_encoded(program, byteorder):
    """decode(encode(p)) == p in both byte orders."""
    assert decode(encode(program, byteorder), byteorder) == tuple(program)


@given(st.binary(max_size=64), st.sampled_from(["little", "big"]))
def test_what_decodes_encodes_to_the_same_bytes(data, byteorder):
    """Any bytes are either refused or survive the way through instructions."""
    try:
        program = decode(data, byteorder)
    except AssemblyError:
        return
    assert encode(program, byteorder) == data


@given(st.sampled_from(sorted({op.code for op in OPS})), st.binary(min_size=7, max_size=7))
def test_known_opcodes_with_random_fields_survive(code, rest):
    """The same for bytes that start with an opcode that exists."""
    data = bytes([code]) + rest + bytes(8)
    for size in (8, 16):
        try:
            program = decode(data[:size])
        except AssemblyError:
            continue
        assert encode(program) == data[:size]


def test_every_row_is_found_again_by_its_fixed_fields():
    """No two rows claim the same bytes: each row decodes to itself."""
    for op in OPS:
        assert [i.op for i in decode(encode([Instruction(op)]))] == [op]


@pytest.mark.parametrize(
    ("instruction", "little", "big"),
    [
        (mov64(R1, -2), "b7010000feffffff", "b7100000fffffffe"),
        (stx(8, R10, -8, R3), "7b3af8ff00000000", "7ba3fff800000000"),
        (lddw(R2, 0x1122334455667788), "1802000088776655 0000000044332211", "1820000055667788 0000000011223344"),
        (load_map_value(R1, 7, 24), "1821000007000000 0000000018000000", "1812000000000007 0000000000000018"),
        (exit_(), "9500000000000000", "9500000000000000"),
    ],
)
def test_layout_of_fields(instruction, little, big):
    """RFC 9669 section 3.1: where each field lies, and that big-endian hosts swap the register nibbles."""
    assert encode([instruction]).hex() == little.replace(" ", "")
    assert encode([instruction], "big").hex() == big.replace(" ", "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("95000000000000", "7 bytes are no whole number of 8-byte instructions"),
        ("ff00000000000000", "slot 0: no instruction has opcode 0xff"),
        ("b70b000000000000", "slot 0: no instruction has opcode 0xb7, dst 11"),
        ("bfb1000000000000", "slot 0: no instruction has opcode 0xbf, dst 1, src 11"),
        ("b710000000000000", "slot 0: no instruction has opcode 0xb7, dst 0, src 1"),
        ("1801000000000000", "slot 0: lddw lacks its second half"),
        ("1801000000000000 9500000000000000", "slot 0: lddw lacks its second half"),
        ("1801000000000000 0000000000000000 1801000000000000", "slot 2: lddw lacks its second half"),
        ("1801000000000000 0000000000000000 ff00000000000000", "slot 2: no instruction has opcode 0xff"),
        ("db12000002000000", "slot 0: no instruction has opcode 0xdb"),
    ],
)
def test_bytes_that_are_no_instructions(data, message):
    """The slot and its fields are named."""
    with pytest.raises(AssemblyError, match="^" + re.escape(message)):
        decode(bytes.fromhex(data))


def test_symbols_must_be_resolved_before_encoding():
    """The message says what resolves them."""
    with pytest.raises(AssemblyError, match=r"instruction 1, lddw_map: 'counts' is not resolved .*resolve\(\) maps"):
        encode([mov64(R1, 1), Instruction(find_op("lddw_map", Form.LDDW_MAP), R1, symbol="counts")])


# Newer than LLVM 19, or resolved by relocations there.
NOT_IN_LLVM_19 = re.compile(r"load_acquire|store_release|lddw_|call_local|call_kfunc")


def corpus():
    """Each operation with operands at their edges."""
    for op in OPS:
        if NOT_IN_LLVM_19.match(op.name):
            continue
        operands = op.operands
        wide, narrow = (5, 2**64 - 1, 2**40), (7, 0x7FFF_FFFF, -0x8000_0000)
        if op.form is Form.CAST:
            narrow = (7, 0x1_0002, 0x7FFF_0000)
        elif op.form in (Form.JUMP_LONG, Form.LOAD_ABSOLUTE, Form.CALL):
            narrow = (7, 0x7FFF, 9)  # LLVM reads fewer numbers here than the field holds
        elif op.form is Form.LOAD_INDIRECT:
            narrow = (0, 0, 0)  # and here none
        for n, (dst, src) in enumerate([(R1, R2), (R10, R0), (Register.R9, R10)]):
            yield Instruction(
                op,
                dst if "d" in operands else R0,
                src if "s" in operands else R0,
                (0, 0x7FFF, -0x8000)[n] if "o" in operands else 0,
                wide[n] if "w" in operands else narrow[n] if "i" in operands else 0,
            )


@pytest.mark.skipif(shutil.which("llvm-mc-19") is None, reason="probe command:llvm-mc-19: no")
@pytest.mark.parametrize(("triple", "byteorder"), [("bpfel", "little"), ("bpfeb", "big")])
def test_llvm_assembles_our_text_to_our_bytes(triple, byteorder):
    """The text of every operation that LLVM 19 knows is read by llvm-mc, and gives the bytes that encode() gives."""
    program = list(corpus())
    text = "".join(kernel_text(instruction) + "\n" for instruction in program)
    command = ["llvm-mc-19", f"-triple={triple}", "-mcpu=v4", "--show-encoding"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = [
        bytes(int(byte, 16) for byte in found.split(","))
        for found in re.findall(r"encoding: \[([^\]]*)\]", done.stdout)
    ]
    assert len(theirs) == len(program) > 400
    for instruction, expected in zip(program, theirs, strict=True):
        assert encode([instruction], byteorder) == expected, kernel_text(instruction)


@pytest.mark.skipif(shutil.which("llvm-objdump-19") is None, reason="probe command:llvm-objdump-19: no")
def test_llvm_disassembles_as_we_do(tmp_path):
    """llvm-objdump's lines read back as the instructions, and say what ours say but for bases and register widths."""
    program, compiled = list(corpus()), tmp_path / "corpus.o"
    text = "".join(kernel_text(instruction) + "\n" for instruction in program)
    assembler = ["llvm-mc-19", "-triple=bpf", "-mcpu=v4", "-filetype=obj", "-o", compiled]
    subprocess.run(assembler, input=text, text=True, check=True)
    command = ["llvm-objdump-19", "--mcpu=v4", "-d", compiled]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [item for item in parse(listed) if not isinstance(item, Label)] == program
    theirs = [line.split("\t")[-1] for line in listed.splitlines() if re.match(r"\s+\d+:\t", line)]
    assert list(map(plain, theirs)) == [plain(kernel_text(instruction)) for instruction in program]


def plain(text):
    """A line without what the two spell differently: hexadecimal and negative numbers, w for r, where a jump goes."""
    text = re.sub(r" <[^<>]*>$", "", text)
    text = re.sub(r"0x([0-9a-f]+)", lambda found: str(int(found[1], 16)), text)
    text = re.sub(r"-(\d+) ll", lambda found: f"{2**64 - int(found[1])} ll", text)
    return re.sub(r"\bw(\d+)", r"r\1", text)


def test_labels_are_not_encoded():
    """What `parse` gives has to be laid out first, and the error says so."""
    with pytest.raises(AssemblyError, match=r"item 0 is a label: layout\(\) replaces labels"):
        encode(parse("again: goto again"))
