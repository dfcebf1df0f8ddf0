"""Where instructions begin in functions: beside objdump, and places of uprobes that are inside one."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from pyebpf.arch.x86_64_lengths import length
from pyebpf.errors import InvalidValue
from pyebpf.symbols.user_functions import find_functions, open_binary
from tests.support.native import build_native
from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path

    from pyebpf.symbols.files import ElfFile


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
