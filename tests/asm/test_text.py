"""Both texts, read and written: each comes back as it was, and says where it means nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from pyebpf.asm import (
    OPS,
    Form,
    Instruction,
    Label,
    Raw,
    Register,
    assemble,
    build,
    decode,
    encode,
    find_op,
    kernel_text,
    link,
    listing,
    mnemonic_text,
    parse,
    parse_line,
    text_of,
)
from pyebpf.asm.build import R0, R1, R2, R3, R10
from pyebpf.asm.op import SYMBOLIC
from pyebpf.errors import AssemblyError

SYNTAXES = st.sampled_from(["kernel", "mnemonic"])
S16 = st.integers(-0x8000, 0x7FFF)
S32 = st.integers(-0x8000_0000, 0x7FFF_FFFF)
U64 = st.integers(0, 2**64 - 1)
# The words of both syntaxes among the names: a map may be called `map`, a label `exit`.
NAMES = st.sampled_from(
    ["loop", "exit", "map", "local", "r1", "fd", "ll", "goto", "a b", 'q"', "\\", "ü", "f.1", "u32", "7"]
)
NAMES |= st.text(min_size=1, max_size=6)


@st.composite
def instructions(draw, *, symbols=True):
    """Any instruction of the table, its target, map or function sometimes a name."""
    op = draw(st.sampled_from(OPS))
    operands = op.operands
    symbol = draw(NAMES) if symbols and op.form in SYMBOLIC and draw(st.booleans()) else None
    offset = draw(S16) if "o" in operands else 0
    imm = draw(U64) if "w" in operands else draw(S32) if "i" in operands else 0
    if symbol is not None:
        if op.form in (Form.JUMP_LONG, Form.CALL_LOCAL, Form.CALL_KFUNC):
            imm = 0
        elif "w" in operands:
            imm &= ~0xFFFF_FFFF
        else:
            offset = 0
    return Instruction(
        op,
        draw(st.sampled_from(Register)) if "d" in operands else R0,
        draw(st.sampled_from(Register)) if "s" in operands else R0,
        offset,
        imm,
        symbol,
    )


def is_helper_call(instruction):
    """A call of a name that is a helper's is one of that helper."""
    return instruction.op.form is Form.CALL_LOCAL and (instruction.symbol or "").startswith("bpf_")


@given(instructions().filter(lambda i: not is_helper_call(i)), SYNTAXES)
def test_each_text_reads_back_as_the_instruction(instruction, syntax):
    """For every operation, operand and name, in both syntaxes."""
    assert parse_line(text_of(instruction, syntax)) == instruction


@pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.name}-{op.form.name}")
@pytest.mark.parametrize("syntax", ["kernel", "mnemonic"])
def test_every_row_has_texts_of_its_own(op, syntax):
    """With operands at their edges; so no two rows share a text."""
    operands = op.operands
    for register, offset, narrow, wide in (
        (R1, 0, 0, 0),
        (R10, 0x7FFF, 0x7FFF_FFFF, 2**64 - 1),
        (R3, -0x8000, -0x8000_0000, 1 << 63),
        (R2, -1, -1, 0xFFFF_FFFF),
    ):
        instruction = Instruction(
            op,
            register if "d" in operands else R0,
            register if "s" in operands else R0,
            offset if "o" in operands else 0,
            wide if "w" in operands else narrow if "i" in operands else 0,
        )
        assert parse_line(text_of(instruction, syntax)) == instruction


@st.composite
def programs(draw):
    """Instructions without names, and raw slots."""
    raw = st.binary(min_size=8, max_size=8).map(lambda data: decode(data, raw=True)[0])
    return draw(st.lists(instructions(symbols=False) | raw.filter(lambda item: isinstance(item, Raw)), max_size=12))


@given(programs(), SYNTAXES)
def test_a_listing_assembles_to_the_same_bytes(program, syntax):
    """Slot numbers, made-up labels, comments and raw bytes are all read back."""
    for maps_by_id in (False, True):
        assert encode(assemble(listing(program, syntax=syntax, maps_by_id=maps_by_id))) == encode(program)


@given(
    st.lists(
        st.sampled_from(["a", "b"]).map(Label) | instructions().filter(lambda i: not is_helper_call(i)), max_size=8
    ),
    SYNTAXES,
)
def test_names_survive_a_listing(items, syntax):
    """What `parse` reads from a listing is what was listed, where no distance was given a label."""
    plain = [item for item in items if isinstance(item, Label) or item.symbol is not None or item.distance is None]
    assert parse(listing(plain, syntax=syntax)) == tuple(plain)


@given(st.binary(max_size=96), st.sampled_from(["little", "big"]), SYNTAXES)
def test_any_bytes_survive_the_way_through_text(data, byteorder, syntax):
    """Raw slots included: bytes to items to text to items to bytes."""
    data = data[: len(data) // 8 * 8]
    items = decode(data, byteorder, raw=True)
    assert encode(items, byteorder) == data
    assert encode(assemble(listing(items, syntax=syntax)), byteorder) == data


@given(st.text(max_size=60) | st.text('r01w %[]+-,=()*u326:#;"goto xif\n.<>', max_size=60))
def test_any_text_is_read_or_refused(text):
    """Nothing but AssemblyError, and that with a place."""
    error = None
    try:
        assemble(text)
    except AssemblyError as caught:
        error = caught
    assert error is None or str(error).startswith(f"<text>:{error.location.line}:{error.location.column + 1}: ")


ALIKE = [
    ("r1 = 5", "mov %r1, 5", "mov r1, 0x5", "mov64 %r1, +5", "  7: (b7) r1 = 5", "7 r1=5 ; comment", "r1 = 5 // x"),
    ("w1 = w2", "mov32 %r1, %r2", "mov32 r1,r2"),
    ("w1 += -1", "add32 %r1, 0xffffffff", "w1 += 0xffffffff", "w1 += 4294967295"),
    ("r1 += -1", "add %r1, 0xffffffff", "add64 %r1, -0x1", "r1 += 0xffffffffffffffff"),
    ("if r1 != -2147483648 goto +1", "jne %r1, 0xffffffff80000000, +1", "if r1 != 18446744071562067968 goto +1"),
    ("r1 = (s8)r2", "movsx864 %r1, %r2"),
    ("w1 = (s16)w2", "movsx1632 %r1, %r2"),
    ("r3 = bswap32 r3", "swap32 %r3", "bswap32 %r3"),
    ("r3 = be16 r3", "be16 %r3"),
    ("r0 = *(u32 *)(r1 + 4)", "r0 = *(u32*)(r1 +4)", "w0 = *(u32 *)(r1 + 0x4)", "ldxw r0, [r1 + 0x4]"),
    ("r0 = *(u8 *)(r1 + 0)", "r0 = *(u8 *)(r1)", "ldxb %r0, [%r1]", "ldxb %r0, [%r1+0]"),
    ("r0 = *(s16 *)(r1 - 2)", "ldxsh %r0, [%r1-2]"),
    ("*(u64 *)(r10 - 8) = r1", "stxdw [%r10-8], %r1"),
    ("*(u16 *)(r10 - 8) = r1", "*(u16 *)(r10 - 8) = w1", "stxh [%r10-8], %r1"),
    ("*(u64 *)(r10 - 8) = -1", "stdw [%r10-8], 0xffffffff", "stdw [%r10-8], -1"),
    ("lock *(u64 *)(r0 + 0) += r1", "lock add [%r0], %r1"),
    ("lock *(u32 *)(r0 + 0) += w1", "lock *(u32 *)(r0 +0) += r1", "lock add32 [%r0], %r1"),
    (
        "r1 = atomic_fetch_add((u64 *)(r10 - 8), r1)",
        "r1 = atomic64_fetch_add((u64 *)(r10 -8), r1)",
        "lock fetch add [%r10-8], %r1",
    ),
    ("r2 = xchg_64(r1 + 0, r2)", "r2 = atomic64_xchg((u64 *)(r1 +0), r2)", "lock xchg [%r1], %r2"),
    ("w0 = cmpxchg32_32(r1 + 0, w0, w2)", "r0 = atomic_cmpxchg((u32 *)(r1 +0), r0, r2)", "lock cmpxchg32 [%r1], %r2"),
    ("if r1 s> 5 goto +3", "if r1 s> 0x5 goto pc+3", "jsgt %r1, 5, +3", "   1: if r1 s> 0x5 goto +0x3 <.text+0x28>"),
    ("if w1 & w2 goto -3", "jset32 %r1, %r2, -3"),
    ("goto +2", "goto pc+2", "ja +2"),
    ("gotol +2", "ja32 +2", "gotol pc+2"),
    ("may_goto +0", "may_goto pc+0"),
    ("call 1", "call 0x1", "call helper 1", "call bpf_map_lookup_elem", "call bpf_map_lookup_elem#1"),
    ("call pc+3", "call local +3", "call pc+3#bpf_prog_0123456789abcdef_f"),
    ("call kfunc[btf:77]", "call runtime 77"),
    ("callx r2", "call %r2"),
    ("r1 = 0x1122334455667788 ll", "lddw %r1, 0x1122334455667788", "lddw r1, 1234605616436508552"),
    ("r1 = 0xffff888140436800 ll", "3: (18) r1 = 0xffff888140436800       ; R1=map_ptr()"),
    ("r1 = 0xffffffffffffffff ll", "lddw %r1, -1"),
    ("r1 = map[fd:7]", "lddw %r1, map_by_fd(7)", "r1 = map[id:7]", "lddw %r1, map_by_fd(fd:7)"),
    ("r1 = map[counts]", "lddw %r1, map_by_fd(counts)", "r1 = counts ll"),
    ("r1 = map[exit] upper 1", "lddw %r1, map_by_fd(exit) upper 1"),
    ("r1 = map[counts][0] + 8", "r1 = map[counts][0]+8", "lddw %r1, map_val(map_by_fd(counts))+8"),
    ("r0 = *(u16 *)skb[12]", "r0 = *(u16 *)skb[0xc]", "ldabsh 12"),
    ("r0 = *(u8 *)skb[r1]", "ldindb %r1, 0", "r0 = *(u8 *)skb[r1 + 0]"),
    ("exit", "   9:\t95 00 00 00 00 00 00 00\texit", "9: (95) exit"),
]  # fmt: skip


@pytest.mark.parametrize("texts", ALIKE, ids=lambda texts: texts[0])
def test_spellings_of_one_instruction(texts):
    """The first is how it is printed; the others are other tools' ways to write it, or its mnemonic."""
    program = [parse_line(text) for text in texts]
    assert program == [program[0]] * len(texts)
    assert kernel_text(program[0]) == texts[0]
    assert parse_line(mnemonic_text(program[0])) == program[0]


def test_labels_functions_and_the_implicit_exit():
    """`exit` is the first exit instruction; a call goes to a label before a helper; names may be quoted."""
    program = assemble(
        """
        # sums 1 to 3
                mov %r0, 0
                mov %r1, 3          ; counter
        loop:   add %r0, %r1
                sub %r1, 1
                jeq %r1, 0, exit
                ja loop
                call local "a function"
                exit
        "a function":
                lddw %r2, code_addr("a function")
                exit
        """
    )
    assert program == (
        build.mov64(R0, 0), build.mov64(R1, 3), build.add64(R0, R1), build.sub64(R1, 1), build.jump_if("jeq", R1, 0, 2),
        build.jump(-4), build.call_local(1), build.exit_(),
        Instruction(find_op("lddw_function", Form.LDDW_FUNCTION), R2, imm=0xFFFF_FFFF), build.exit_(),
    )  # fmt: skip


def test_a_label_called_exit_hides_the_implicit_one():
    """Its own place counts."""
    assert assemble("ja exit\nexit\nexit:\nmov %r0, 1\nexit")[0] == build.jump(1)


def test_a_label_hides_the_helper_of_its_name():
    """A call goes to the text's own function."""
    assert assemble("call bpf_loop\nexit\nbpf_loop: exit")[0] == build.call_local(1)
    assert assemble("call bpf_loop\nexit")[0] == build.call(181)


def test_maps_and_kernel_functions_stay_names():
    """Only a load knows their numbers."""
    program = assemble("r1 = map[counts]\ncall kfunc[bpf_iter_num_new]\nexit")
    assert [instruction.symbol for instruction in program] == ["counts", "bpf_iter_num_new", None]


def test_instructions_know_their_lines():
    """File, line, column and text."""
    (instruction,) = parse("\n\n  r1 = 5 ; five", "a.s")
    assert (str(instruction.where), instruction.where.column, instruction.where.end_column) == ("a.s:3", 2, 8)
    assert instruction.where.text == "  r1 = 5 ; five"


REFUSALS = [
    ("mov %r0 1", "1:9: `1` cannot stand here: expected `,`"),
    ("moov %r0, 1", "1:1: there is no instruction `moov` (did you mean mov or mov64 or mov32?)"),
    ("r1 = r2 + 3", "1:9: `+ 3` cannot stand here: expected the end of the line"),
    ("mod %r3,#", "1:9: `#` cannot stand here: expected a number"),
    ("call @", "1:6: `@` cannot stand here: expected a number"),
    ("if r1 == 5 got L1", "1:12: `got` cannot stand here: expected `goto`"),
    ("= 5", "1:1: no instruction starts with `=`"),
    ("jeq %r1, 5", "1:11: the instruction is not complete: expected `,`"),
    ("mov %r11, 1", "1:5: there is no register %r11: they are r0 to r10"),
    ("ldxw %r0, [%r1+99999]", "1:1: ldxw: offset 99999 does not fit 16 bits (-32768..32767)"),
    ("r1 = 0x1ffffffff", "1:6: 0x1ffffffff does not fit 32 bits: load it with `r1 = 0x1ffffffff ll`"),
    ("mov %r2, 0x1ffffffff", "1:10: 0x1ffffffff does not fit 32 bits: load it with `lddw %r2, 0x1ffffffff`"),
    ("r1 += 0x80000000", "1:7: 0x80000000 does not fit 32 bits: load it into a register, as by `r5 = 0x80000000 ll`"),
    ("r1 += 0xffffffff7fffffff", "1:7: 0xffffffff7fffffff does not fit 32 bits: load it into a register, as by"),
    ("jeq %r1, 4294967296, +1", "1:10: 4294967296 does not fit 32 bits: load it into a register, as by `lddw %r5, 0x1"),
    ("*(u64 *)(r1 + 0) = 0x80000000", "1:20: 0x80000000 does not fit 32 bits: load it into a register"),
    ("r1 += 0x10000000000000000", "1:7: 0x10000000000000000 does not fit 64 bits"),
    ("w1 += 0xffffffffffffffff", "1:7: 0xffffffffffffffff does not fit 32 bits (-2147483648..4294967295)"),
    ("mov32 %r1, 0x876543210", "1:12: 0x876543210 does not fit 32 bits (-2147483648..4294967295)"),
    ("call 0xffffffff", "1:1: call: imm 4294967295 does not fit 32 bits"),
    ("r1 = 0x1ffffffffffffffff ll", "1:1: lddw: imm 36893488147419103231 does not fit 64 bits"),
    ("w2 = xchg32_32(r1 + 0, w3)", "1:24: atomic_xchg32 has one register in these places, but here are r2 and w3"),
    ("r1 = be16 r2", "1:11: be16 has one register in these places, but here are r1 and r2"),
    ("r1 = *(u16 *)skb[4]", "1:1: r1 must be r0"),
    ("r1 = 010", "1:6: 010 is octal to LLVM's assembler and decimal to others: write 10, or 0x…"),
    ("ldxw %r0, [%r1 + 08]", "1:16: 08 is octal to LLVM's assembler and decimal to others: write 8, or 0x…"),
    ("r1 = map[m][1] + 4", "1:13: 1 must be 0"),
    ("r1 = map[m][0] + 0x100000000", "1:16: + 0x100000000 is outside 0..4294967295"),
    ("mov %r0, 1; exit", "1:13: a comment starts at `;`, but this is an instruction: give it a line of its own"),
    ("goto lop\nloop: exit", "1:1: there is no label 'lop' (did you mean loop?)"),
    ("call f", "1:1: there is no function 'f': a helper is called by its name `bpf_…` or number, a kernel function as"),
    ("a: exit\na: exit", "2:1: label 'a' is defined twice: rename one"),
    (".byte 1, 2", "1:1: 2 bytes of data make no whole slots of 8"),
    (".byte 1, 2 3", "1:1: .byte takes numbers of 1 bytes, with commas between them"),
    (".quad", "1:1: .quad takes numbers of 8 bytes, with commas between them"),
    (".long 0x100000000", "1:7: 0x100000000 is not a number of 4 bytes (0 to 0xffffffff)"),
    (".byte 1, 2, 3, 4, 5, 6, 7, 256", "1:28: 256 is not a byte (0 to 0xff)"),
    ('goto "\\u{110000}"', "1:6: \\u{110000} is not a character"),
    ("far:\n" + "r0 = 0\n" * 0x8000 + "goto far", "32770:1: label 'far' is -32769 slots away and 16 bits reach"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_texts_that_mean_nothing(text, message):
    """File, line, column, what is wrong and what to write; below it the line with carets."""
    with pytest.raises(AssemblyError) as caught:
        assemble(text, "a.s")
    first, source, carets = str(caught.value).split("\n")
    assert first.startswith(f"a.s:{message}")
    assert source.strip() in text
    assert re.fullmatch(r" +\^+", carets)


def test_linking_what_was_built_by_hand():
    """The items may come from constructors, too."""
    assert link([Label("a"), Raw(bytes(8)), build.jump("a")]) == (Raw(bytes(8)), build.jump(-2))


def test_a_raw_slot_is_eight_bytes():
    """No more, no less."""
    with pytest.raises(AssemblyError, match=r"^a slot has 8 bytes, not 7$"):
        Raw(bytes(7))
