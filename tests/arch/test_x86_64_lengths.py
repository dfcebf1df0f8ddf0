"""Lengths of x86-64 instructions: by hand, beside objdump, and places of uprobes that are inside one."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from pyebpf.arch.x86_64_lengths import LONGEST, around, length
from pyebpf.errors import InvalidValue
from pyebpf.symbols.user_functions import find_functions, open_binary
from tests.support.native import build_native
from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path

    from pyebpf.symbols.files import ElfFile


@pytest.mark.parametrize(
    "code",
    [
        "90", "c3", "55", "4889e5", "50", "4154", "e800000000", "ebfe", "0f8400000000", "c9", "cc",
        "488b0500000000", "8b0425d2040000", "8b442410", "678b00", "c74424fc01000000", "66c745fc0100",
        "48b8efcdab8967452301", "b801000000", "66b80100", "a1efcdab8967452301", "67a101000000",
        "f6c101", "f7c101000000", "66f7c10100", "f7d8", "48f7f1", "c8100001", "c20800", "6a01", "6801000000",
        "f30f1efa", "0f1f840000000000", "662e0f1f840000000000", "0fba e003", "0fa4c203", "660f3a0fc108", "660f3800c1",
        "0f20c0", "660f7300 08", "c5f877", "c5fd6f07", "c4e2790f07", "c4e37d3900 01", "62f17c4828c1",
        "62f3fd4827c901", "8fe978c2 c0", "f20f1045f8", "f0480fb10a", "d9c0", "0f0b", "66666648e800000000",
    ],
)  # fmt: skip
def test_by_hand(code: str) -> None:
    """Prefixes, operands in memory, displacements, immediate operands of each size, vectors."""
    data = bytes.fromhex(code)
    assert length(data, 0) == len(data)
    assert length(b"\x90" + data + b"\xcc", 1) == len(data)
    for end in range(1, len(data)):  # cut off
        assert length(data[:end], 0) < len(data)


def test_what_is_no_instruction() -> None:
    """It has no length, and nothing is said of places behind it."""
    for code in ("06", "82c001", "d5", "0f04", "0f0f", "66" * LONGEST):
        assert length(bytes.fromhex(code), 0) == 0
    assert around(bytes.fromhex("0690909090"), 3) is None


@given(st.binary(max_size=40), st.integers(0, 40))
def test_any_bytes(code: bytes, at: int) -> None:
    """A length is within the bytes, and within what the processor takes."""
    assert 0 <= length(code, at) <= min(LONGEST, max(len(code) - at, 0))
    start = around(code, at)
    assert start is None or start < at < start + length(code, start)


@pytest.mark.parametrize("path", ["/bin/bash", "/lib/x86_64-linux-gnu/libc.so.6"])
def test_beside_objdump(path: str) -> None:
    """All instructions of two files, among them those of vectors (libc has each function for several processors)."""
    needs("arch:x86_64", "command:objdump", f"setting:{path}")
    done = subprocess.run(["objdump", "-d", "-w", path], capture_output=True, text=True, check=True, timeout=600)
    lines = re.findall(r"^ +[0-9a-f]+:\t((?:[0-9a-f]{2} )+) *\t(?!\(bad\)|rex)", done.stdout, re.MULTILINE)
    wrong = {line for line in set(lines) if length(bytes.fromhex(line), 0) != len(line.split())}
    assert len(lines) > 1000
    assert not wrong


def test_no_uprobe_is_inside_an_instruction(tmp_path: Path) -> None:
    """Each place in a function is one where an instruction begins, as objdump has it, or is refused."""
    needs("arch:x86_64", "command:objdump")
    source = "int work(int a) { return a * 7 + 1000000; }\nint main(int n, char **v) { return work(n) == 3; }\n"
    path = build_native(source, tmp_path / "program")
    done = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True)
    (text,) = re.findall(r"^([0-9a-f]+) <work>:\n((?: .*\n)+)", done.stdout, re.MULTILINE)
    first = int(text[0], 16)
    starts = {int(each, 16) - first for each in re.findall(r"^ +([0-9a-f]+):\t", text[1], re.MULTILINE)}
    elf = open_binary(str(path))
    (symbol,) = elf.find("work")
    distances = range(symbol.size)
    assert {each for each in distances if is_taken(elf, f"work+{each}")} == starts
    assert {each for each in distances if is_taken(elf, f"*{symbol.value + each:#x}")} == starts
    assert 1 < len(starts) < symbol.size
    with pytest.raises(InvalidValue, match=r"work\+1 of .*: no instruction begins there, but one at \+0x0: a probe"):
        find_functions(elf, ("work+1",))


def is_taken(elf: ElfFile, name: str) -> bool:
    """Whether a place is not refused."""
    try:
        find_functions(elf, (name,))
    except InvalidValue:
        return False
    return True
