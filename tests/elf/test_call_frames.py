"""Rows of .eh_frame: beside pyelftools, which others wrote, instruction by instruction, and of garbled bytes."""

from __future__ import annotations

import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from hypothesis import given, strategies as st

from pyebpf.elf.call_frame_program import (
    CFA_ABOVE_MEMORY,
    CFA_IN_MEMORY,
    CFA_OF_FP,
    CFA_OF_PLT,
    FP_AT_CFA,
    FP_AT_FP,
    FP_AT_SP,
    FP_LOST,
    NOT_HELD,
    OUTERMOST,
    RA_AT_SP,
    RA_IN_REGISTER,
    ROW,
    SIGNAL,
    UNKNOWN,
    Row,
)
from pyebpf.elf.call_frames import call_frames
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import MalformedData
from pyebpf.symbols.mappings import read_mappings
from tests.support.native import build_native

X86_64, ARM64 = 62, 183
SP, FP, RA = 7, 6, 16
GNU_ARGS_SIZE = 0x2E
AT = 0x1000  # where the section is, and the functions


def rows_of(elf):
    return [Row(*fields) for fields in ROW.iter_unpack(b"".join(call_frames(elf)))]


def uleb(value):
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def sleb(value):
    found = bytearray()
    while not -64 <= value < 64:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value & 0x7F))


def entry(body):
    body += bytes(-len(body) % 4)
    return struct.pack("<I", len(body)) + body


def section(program, *, initial=bytes((0x0C, SP, 8, 0x80 | RA, 1)), size=64, augmentation=b"zR", ra=RA):
    """A CIE and a function of so many bytes at address 0x2000, with its program."""
    common = (
        struct.pack("<IB", 0, 1) + augmentation + b"\0" + uleb(1) + sleb(-8) + uleb(ra) + uleb(1) + b"\x1b" + initial
    )
    first = entry(common)
    place = len(first) + 4
    start = 0x2000 - (AT + place + 4)
    second = struct.pack("<IiI", place, start, size) + uleb(0) + program
    return first + entry(second) + bytes(4)


def elf_of(data, machine=X86_64):
    """An ELF file that has nothing but an .eh_frame."""
    names = b"\0.eh_frame\0.shstrtab\0"
    at = 64 + len(data)
    headers = at + len(names)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, headers, 0, 64, 56, 0, 64, 3, 2)
    table = bytes(64)
    table += struct.pack("<IIQQQQIIQQ", 1, 1, 2, AT, 64, len(data), 0, 0, 8, 0)
    table += struct.pack("<IIQQQQIIQQ", 11, 3, 0, 0, at, len(names), 0, 0, 1, 0)
    return ElfSymbols.from_bytes(header + data + names + table, "made")


def made(program, machine=X86_64, **options):
    """Rows of a function, counted from its start, without those around it."""
    found = rows_of(elf_of(section(program, **options), machine))
    assert found[0] == Row(0, 0, 0, 0, UNKNOWN)
    assert found[-1] == Row(0x2000 + 64, 0, 0, 0, UNKNOWN)
    return [(row.start - 0x2000, *row[1:]) for row in found[1:-1]]


ENTRY = (0, 8, 0, -8, 0)


@pytest.mark.parametrize(
    ("program", "rows"),
    [
        # push rbp; mov rbp, rsp; …; leave
        (
            bytes((0x41, 0x0E, 16, 0x86, 2, 0x43, 0x0D, FP, 0x48, 0x0C, SP, 8)),
            [ENTRY, (1, 16, -16, -8, FP_AT_CFA), (4, 16, -16, -8, FP_AT_CFA | CFA_OF_FP), (12, 8, -16, -8, FP_AT_CFA)],
        ),
        # a way out in the middle
        (
            bytes((0x44, 0x0E, 32, 0x44, 0x0A, 0x0E, 8, 0x41, 0x0B)),
            [ENTRY, (4, 32, 0, -8, 0), (8, 8, 0, -8, 0), (9, 32, 0, -8, 0)],
        ),
        # long distances, a large frame, a register back at its place
        (
            bytes((0x02, 20, 0x0E, *uleb(70_000), 0x86, 3, 0x03, 10, 0, 0xC0 | FP, 0x04, 1, 0, 0, 0, 0x0E, 8)),
            [ENTRY, (20, 70_000, -24, -8, FP_AT_CFA), (30, 70_000, 0, -8, 0), (31, 8, 0, -8, 0)],
        ),
        # signed and factored forms, and those of GNU
        (
            bytes((0x41, 0x12, SP, *sleb(-3), 0x41, 0x13, *sleb(-4), 0x11, FP, *sleb(2), 0x41, 0x2F, FP, 3, 0x2E, 8)),
            [ENTRY, (1, 24, 0, -8, 0), (2, 32, -16, -8, FP_AT_CFA), (3, 32, 24, -8, FP_AT_CFA)],
        ),
        (bytes((0x41, 0x05, FP, 4, 0x41, 0x06, FP, 0x08, 3)), [ENTRY, (1, 8, -32, -8, FP_AT_CFA), (2, 8, 0, -8, 0)]),
        # a frame pointer that is in another register, or at a place that a row cannot hold
        (bytes((0x09, FP, 3, 0x41, 0x10, FP, 2, 0x75, 0)), [(0, 8, 0, -8, FP_LOST)]),
        # no caller
        (bytes((0x07, RA)), [(0, 0, 0, 0, OUTERMOST)]),
        # the CFA is in memory: a stack that was aligned anew
        (bytes((0x0F, 3, 0x76, *sleb(-8), 0x06)), [(0, -8, 0, -8, CFA_OF_FP | CFA_IN_MEMORY)]),
        (bytes((0x10, FP, 2, 0x76, 0)), [(0, 8, 0, -8, FP_AT_FP)]),
        # as OpenSSL's assembly has it
        (
            bytes((0x0F, 6, 0x77, *sleb(152), 0x06, 0x23, 8)),
            [(0, 152, 0, -8, CFA_IN_MEMORY | CFA_ABOVE_MEMORY)],
        ),
        # a frame of a signal
        (
            bytes((0x0F, 4, 0x77, *sleb(160), 0x06, 0x10, FP, 3, 0x77, *sleb(120), 0x10, RA, 3, 0x77, *sleb(168))),
            [(0, 160, 120, 168, CFA_IN_MEMORY | FP_AT_SP | RA_AT_SP)],
        ),
        # the procedure linkage table
        (bytes((0x0F, 11, 0x77, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22)), [(0, 0, 0, -8, CFA_OF_PLT)]),
        # what a row cannot hold
        (bytes((0x0C, 5, 8)), [(0, 0, 0, 0, NOT_HELD)]),
        (bytes((0x0F, 2, 0x75, 0)), [(0, 0, 0, 0, NOT_HELD)]),
        (bytes((0x09, RA, 2)), [(0, 0, 0, 0, NOT_HELD)]),
        (bytes((0x16, RA, 2, 0x77, 0)), [(0, 0, 0, 0, NOT_HELD)]),
        (bytes((0x0E, *uleb(1 << 33))), [(0, 0, 0, 0, NOT_HELD)]),
        # garbled: an instruction that there is not, no state to restore, an operand that is cut off
        (bytes((0x3F,)), [(0, 0, 0, 0, NOT_HELD)]),
        (bytes((0x0B,)), [(0, 0, 0, 0, NOT_HELD)]),
        (bytes((0x41, 0x0E, *[0xFF] * 20)), [(0, 0, 0, 0, NOT_HELD)]),
    ],
)
def test_instructions(program, rows):
    """Each instruction that compilers write, in a function of its own."""
    assert made(program) == rows


def test_signal():
    """The augmentation S marks frames whose caller was interrupted."""
    assert made(b"", augmentation=b"zRS") == [(0, 8, 0, -8, SIGNAL)]


def test_arm64():
    """The return address is in its register until it is saved; that it is signed changes no place."""
    program = bytes((0x41, 0x2D, 0x0E, 32, 0x80 | 29, 4, 0x80 | 30, 3, 0x44, 0xC0 | 30, 0xC0 | 29, 0x0E, 0))
    assert made(program, ARM64, initial=bytes((0x0C, 31, 0)), ra=30) == [
        (0, 0, 0, 0, RA_IN_REGISTER),
        (1, 32, -32, -24, FP_AT_CFA),
        (5, 0, 0, 0, RA_IN_REGISTER),
    ]


def their_rows(path):
    """By address: where the CFA, the frame pointer and the return address are, as pyelftools decodes them."""
    with path.open("rb") as stream:
        for each in ELFFile(stream).get_dwarf_info().EH_CFI_entries():
            if not isinstance(each, FDE) or any(each.opcode == GNU_ARGS_SIZE for each in each.instructions):
                continue  # pyelftools does not know that one
            for line in each.get_decoded().table:
                yield line["pc"], line["cfa"], line.get(FP), line.get(RA)


def as_ours(cfa, fp, ra):
    """What a row says of theirs; None for what only our tests by hand look at."""
    if cfa.expr is not None or any(rule is not None and rule.type not in {"OFFSET", "UNDEFINED"} for rule in (fp, ra)):
        return None
    if ra is not None and ra.type == "UNDEFINED":
        return 0, 0, 0, OUTERMOST
    if cfa.reg not in {SP, FP}:
        return 0, 0, 0, NOT_HELD
    rules = (CFA_OF_FP if cfa.reg == FP else 0) | (FP_AT_CFA if fp is not None else 0)
    return cfa.offset, fp.arg if fp is not None else 0, ra.arg, rules


def test_beside_pyelftools(tmp_path):
    """The C library and a program of this machine's compiler: each row of theirs is ours."""
    program = build_native("int main(void) { return 0; }", tmp_path / "program", "-O2")
    libraries = [Path(each.path) for each in read_mappings("self") if "libc.so" in each.path]
    compared = 0
    for path in (program, libraries[0]):
        rows = rows_of(ElfSymbols.from_bytes(path.read_bytes(), path.name))
        starts = [row.start for row in rows]
        assert starts == sorted(set(starts))
        for address, *theirs in their_rows(path):
            expected = as_ours(*theirs)
            if expected is None:
                continue
            row = rows[bisect_right(starts, address) - 1]
            assert row[1:] == expected, (path, hex(address))
            compared += 1
    assert compared > 1000


@given(st.binary(max_size=200))
def test_any_program(program):
    """Any bytes are a function's program: rows in order."""
    starts = [row[0] for row in made(program)]
    assert starts == sorted(starts)


@given(st.data())
def test_garbled(data):
    """A section of which some bytes are others: rows in order, or the error for garbled files."""
    good = bytearray(section(bytes((0x41, 0x0E, 16, 0x86, 2, 0x43, 0x0D, FP))))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        starts = [row.start for row in rows_of(elf_of(bytes(good)))]
    except MalformedData:
        return
    assert starts == sorted(starts)


def test_none():
    """A file without the section, of another machine, or cut short in an entry."""
    assert rows_of(elf_of(bytes(4))) == []
    assert rows_of(elf_of(section(b""), machine=8)) == []
    with pytest.raises(MalformedData, match="ends behind the section"):
        rows_of(elf_of(struct.pack("<I", 100) + bytes(8)))
