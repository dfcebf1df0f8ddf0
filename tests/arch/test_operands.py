"""Arguments of USDT probes in every spelling of each architecture's assembler: pure, whatever this machine is."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyebpf.arch import architecture
from pyebpf.arch.operands import UsdtArgument, parse_argument, parse_arguments
from pyebpf.errors import InvalidValue

X86_64, AARCH64 = architecture("x86_64"), architecture("aarch64")
HERE, NUMBER = 0x1000, 0x5000
X86_64_FORMS = {
    "8@%rdi": UsdtArgument(8, False, base="di"),
    "-4@%ebp": UsdtArgument(4, True, base="bp"),
    "2@%r15w": UsdtArgument(2, False, base="r15"),
    "-1@%sil": UsdtArgument(1, True, base="si"),
    "1@%r9b": UsdtArgument(1, False, base="r9"),
    "%rax": UsdtArgument(8, False, base="ax"),
    "-1@%ah": UsdtArgument(1, True, base="ax", is_high=True),
    "1@%dh": UsdtArgument(1, False, base="dx", is_high=True),
    "8@$0": UsdtArgument(8, False),
    "-4@$-5": UsdtArgument(4, True, -5),
    "4@$0xff": UsdtArgument(4, False, 255),
    "4@$017": UsdtArgument(4, False, 15),
    "8@(%rax)": UsdtArgument(8, False, 0, "ax", in_memory=True),
    "-4@112(%rsp)": UsdtArgument(4, True, 112, "sp", in_memory=True),
    "8@-0x10(%rbp)": UsdtArgument(8, False, -16, "bp", in_memory=True),
    "8@16+8-4(%rbp)": UsdtArgument(8, False, 20, "bp", in_memory=True),
    "8@(%r9,%rbx,8)": UsdtArgument(8, False, 0, "r9", "bx", 3, in_memory=True),
    "8@-8(%r9,%rbx)": UsdtArgument(8, False, -8, "r9", "bx", 0, in_memory=True),
    "8@64(,%rbx,2)": UsdtArgument(8, False, 64, "", "bx", 1, in_memory=True),
    "4@number(%rip)": UsdtArgument(4, False, NUMBER - HERE, "ip", in_memory=True),
    "4@number+4(%rip)": UsdtArgument(4, False, NUMBER + 4 - HERE, "ip", in_memory=True),
    "4@4+number(%rip)": UsdtArgument(4, False, NUMBER + 4 - HERE, "ip", in_memory=True),
    "4@number": UsdtArgument(4, False, NUMBER - HERE, "ip", in_memory=True),
    "8@$number": UsdtArgument(8, False, NUMBER - HERE, "ip"),
    "8@number(,%rdx,8)": UsdtArgument(8, False, NUMBER - HERE, "ip", "dx", 3, in_memory=True),
    "8@%rip": UsdtArgument(8, False, base="ip"),
    "8@number(%rdx)": UsdtArgument(8, False, NUMBER - HERE, "ip", "dx", 0, in_memory=True),
}
X86_64_UNKNOWN = (
    "", "8@", "3@%rax", "8f@%xmm0", "8@%xmm0", "2@%ah", "1@%sih", "1@(%ah)",
    "8@%fs:-8", "8@(%eax)", "8@8(%rip)", "8@(%rax,%rbx,3)", "8@4",
    "8@number(%rax,%rbx,8)", "8@-number(%rip)", "8@number+number(%rip)", "4@$08", "8@1 2(%rax)", "8@()", "x@%rax",
    "8@%rax%rbx", "8@other(%rip)", "8@(%rip)", "8@number(%rip,%rax)", "8@x0", "4@[sp, 12]",
)  # fmt: skip
# As they stand in the notes of programs: GCC's, then clang's, which writes a # before numbers.
AARCH64_FORMS = {
    "8@x0": UsdtArgument(8, False, base="x0"),
    "-8@x30": UsdtArgument(8, True, base="x30"),
    "-4@w21": UsdtArgument(4, True, base="x21"),
    "1@w3": UsdtArgument(1, False, base="x3"),
    "2@x4": UsdtArgument(2, False, base="x4"),
    "8@sp": UsdtArgument(8, False, base="sp"),
    "8@fp": UsdtArgument(8, False, base="x29"),
    "x7": UsdtArgument(8, False, base="x7"),
    "8@0": UsdtArgument(8, False),
    "-4@5": UsdtArgument(4, True, 5),
    "-4@-5": UsdtArgument(4, True, -5),
    "8@0x10": UsdtArgument(8, False, 16),
    "-4@[x22]": UsdtArgument(4, True, 0, "x22", in_memory=True),
    "4@[sp]": UsdtArgument(4, False, 0, "sp", in_memory=True),
    "-4@[sp, 128]": UsdtArgument(4, True, 128, "sp", in_memory=True),
    "2@[x22, 20]": UsdtArgument(2, False, 20, "x22", in_memory=True),
    "8@[x29,-16]": UsdtArgument(8, False, -16, "x29", in_memory=True),
    "8@[x2, x3]": UsdtArgument(8, False, 0, "x2", "x3", in_memory=True),
    "8@[x2, x3, lsl 3]": UsdtArgument(8, False, 0, "x2", "x3", 3, in_memory=True),
    "-4@#5": UsdtArgument(4, True, 5),
    "8@[sp, #16]": UsdtArgument(8, False, 16, "sp", in_memory=True),
    "8@[x2, x3, lsl #2]": UsdtArgument(8, False, 0, "x2", "x3", 2, in_memory=True),
}
AARCH64_UNKNOWN = (
    "", "8@", "3@x0", "8@x31", "8@xzr", "8@d0", "4@s1", "8@v0.16b", "8@[x21, #:lo12:.LANCHOR2]", "8@[w0]", "8@[x0, w1]",
    "8@[x0, w1, sxtw 3]", "8@[x0, x1, lsl 4]", "8@[x0, 8]!", "8@[x0], 8", "8@[x0", "8@x0]", "8@[]", "8@[pc]", "8@08",
    "8@number", "8@%rdi", "4@$5", "8@8(%rsp)", "8@[x0, number]",
)  # fmt: skip
FORMS = {X86_64: X86_64_FORMS, AARCH64: AARCH64_FORMS}
UNKNOWN = {X86_64: X86_64_UNKNOWN, AARCH64: AARCH64_UNKNOWN}


def each(texts):
    """Parameters: every text of every architecture."""
    return [pytest.param(arch, text, id=f"{arch.name}-{text}") for arch, found in texts.items() for text in found]


def symbol(name):
    if name != "number":
        raise InvalidValue(f"no symbol {name}")
    return NUMBER


@pytest.mark.parametrize(("arch", "text"), each(FORMS))
def test_each_form(arch, text):
    """Where an argument is, as the assembler spells it; a program can read every register that it names."""
    found = parse_argument(text, arch, HERE, symbol)
    assert found == FORMS[arch][text]
    assert {found.base, found.scaled} <= {"", *arch.registers}


@pytest.mark.parametrize(("arch", "text"), each(UNKNOWN))
def test_what_is_not_known_is_refused(arch, text):
    """With the text in the message, of one line; nothing is guessed."""
    with pytest.raises(InvalidValue) as caught:
        parse_argument(text, arch, HERE, symbol)
    assert text.partition("@")[2] in str(caught.value) or "other" in text
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("arch", FORMS, ids=lambda arch: arch.name)
def test_a_list_is_taken_apart_at_the_spaces_between(arch):
    """Not at those inside of brackets."""
    texts = [text for text in FORMS[arch] if "@" in text]
    assert parse_arguments(" ".join(texts)) == tuple(texts)
    assert parse_arguments(f"  {'   '.join(texts)} ") == tuple(texts)
    assert parse_arguments("") == ()


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from("1248"), st.booleans())
def test_numbers_are_taken_whole(number, size, signed):
    """Constants and displacements of 64 bits with either sign."""
    text, wanted = f"{'-' if signed else ''}{size}@", (int(size), signed, number)
    assert parse_argument(f"{text}${number}", X86_64) == UsdtArgument(*wanted)
    assert parse_argument(f"{text}{number:#x}(%rcx)", X86_64) == UsdtArgument(*wanted, "cx", in_memory=True)
    assert parse_argument(f"{text}{number}", AARCH64) == UsdtArgument(*wanted)
    assert parse_argument(f"{text}[x9, {number}]", AARCH64) == UsdtArgument(*wanted, "x9", in_memory=True)
