"""USDT notes: arguments in every spelling, and addresses of a file that was moved after its notes were written."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import InvalidValue, MalformedData
from pyebpf.symbols.elf import ElfSymbols
from pyebpf.symbols.usdt_notes import UsdtArgument, parse_argument, usdt_probes
from tests.support.needs import needs
from tests.support.traced import binary

HERE, NUMBER = 0x1000, 0x5000
FORMS = {
    "8@%rdi": UsdtArgument(8, False, base="di"),
    "-4@%ebp": UsdtArgument(4, True, base="bp"),
    "2@%r15w": UsdtArgument(2, False, base="r15"),
    "-1@%sil": UsdtArgument(1, True, base="si"),
    "1@%r9b": UsdtArgument(1, False, base="r9"),
    "%rax": UsdtArgument(8, False, base="ax"),
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
    "8@number(%rdx)": UsdtArgument(8, False, NUMBER - HERE, "ip", "dx", 0, in_memory=True),
}
UNKNOWN = (
    "", "8@", "3@%rax", "8f@%xmm0", "8@%xmm0", "1@%ah", "8@%fs:-8", "8@(%eax)", "8@8(%rip)", "8@(%rax,%rbx,3)", "8@4",
    "8@number(%rax,%rbx,8)", "8@-number(%rip)", "8@number+number(%rip)", "4@$08", "8@1 2(%rax)", "8@()", "x@%rax",
    "8@%rax%rbx", "8@other(%rip)",
)  # fmt: skip


def symbol(name):
    if name != "number":
        raise InvalidValue(f"no symbol {name}")
    return NUMBER


@pytest.mark.parametrize("text", FORMS)
def test_each_form(text):
    """Where an argument is, as the assembler spells it."""
    assert parse_argument(text, HERE, symbol) == FORMS[text]


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_not_known_is_refused(text):
    """With the text in the message, of one line; nothing is guessed."""
    with pytest.raises(InvalidValue) as caught:
        parse_argument(text, HERE, symbol)
    assert text.partition("@")[2] in str(caught.value) or "other" in text
    assert len(str(caught.value).splitlines()) == 1


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from("1248"), st.booleans())
def test_numbers_are_taken_whole(number, size, signed):
    """Constants and displacements of 64 bits with either sign."""
    text = f"{'-' if signed else ''}{size}@"
    assert parse_argument(f"{text}${number}") == UsdtArgument(int(size), signed, number)
    assert parse_argument(f"{text}{number:#x}(%rcx)") == UsdtArgument(int(size), signed, number, "cx", in_memory=True)


def test_a_file_that_was_moved():
    """Notes that tell of lower addresses than the file has now mean the same places: .stapsdt.base moved with them."""
    needs("arch:x86_64")
    path = binary("library")
    elf = ElfSymbols(path)
    expected = usdt_probes(elf)
    assert [(probe.provider, probe.name) for probe in expected] == [
        ("traced", name) for name in ("forms", "twice", "twice", "guarded")
    ]
    assert [probe.semaphore != 0 for probe in expected] == [False, False, False, True]
    section = elf.section(".note.stapsdt")
    data = bytearray(Path(path).read_bytes())
    place = section.offset
    while place < section.offset + section.size:
        name, size, _ = struct.unpack_from("<III", data, place)
        at = place + 12 + name
        location, base, counter = struct.unpack_from("<QQQ", data, at)
        struct.pack_into("<QQQ", data, at, location - 0x800, base - 0x800, counter - 0x800 if counter else 0)
        place = at + (size + 3 & ~3)
    assert usdt_probes(ElfSymbols.from_bytes(bytes(data), "moved")) == expected
    struct.pack_into("<I", data, section.offset + 4, 20)
    with pytest.raises(MalformedData, match="garbled"):
        usdt_probes(ElfSymbols.from_bytes(bytes(data), "garbled"))
