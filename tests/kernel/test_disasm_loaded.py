"""`pyebpf disasm id N`: a loaded program, with its functions, source lines, maps and helpers."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess

import pytest

from pyebpf.asm import Instruction, assemble, decode, parse
from pyebpf.kernel.program_dump import dump_program
from pyebpf.objects import Map, Program
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType, ProgramType
from tests.support.command import pyebpf

TEXT = """
        r1 = map[counts]
        *(u32 *)(r10 - 4) = 1
        r2 = r10
        r2 += -4
        call bpf_map_lookup_elem
        if r0 == 0 goto out
        r1 = 1
        lock *(u64 *)(r0 + 0) += r1
        call second
out:    r0 = 0
        exit
second: call bpf_ktime_get_ns
        exit
"""


def spec_of(text):
    """A socket filter of two functions."""
    instructions = assemble(text, "counts.s")
    start = next(n for n, instruction in enumerate(instructions) if instruction.where.line == 13)
    code = Code(instructions, (FunctionStart("first", 0), FunctionStart("second", start)))
    return ProgramSpec("first", ProgramType.SOCKET_FILTER, code)


def test_a_loaded_program_is_listed():
    """Both functions by name, the assembly's lines as its source, the map's name, the helpers that are still calls."""
    with contextlib.ExitStack() as stack:
        counts = stack.enter_context(Map(MapSpec("counts", MapType.ARRAY, U32, U64, 7)))
        program = stack.enter_context(Program(spec_of(TEXT), {"counts": counts}))
        number, map_id = str(program.info().id), counts.info().id
        kernel, mnemonic = pyebpf("disasm", "id", number), pyebpf("disasm", "id", number, "--syntax", "mnemonic")
    assert (kernel.returncode, kernel.stderr) == (0, "")
    lines = kernel.stdout.splitlines()
    assert lines[0] == "first:"
    assert "second:" in lines
    assert re.search(rf"^ +\d+ r1 = map\[id:{map_id}\]  ; map counts$", kernel.stdout, re.MULTILINE)
    assert re.search(rf"^ +\d+ lddw %r1, map_by_fd\(id:{map_id}\)  ; map counts$", mnemonic.stdout, re.MULTILINE)
    assert "      ; counts.s:9: lock *(u64 *)(r0 + 0) += r1" in lines
    assert re.search(r"^ +\d+ call second$", kernel.stdout, re.MULTILINE)
    assert "bpf_ktime_get_ns" in kernel.stdout
    # Both texts are the same program.
    assert mnemonic.stdout.splitlines()[0] == "first:"
    assert assemble(kernel.stdout) == assemble(mnemonic.stdout)


@pytest.mark.skipif(shutil.which("bpftool") is None, reason="probe command:bpftool: no")
def test_bpftool_shows_the_same():
    """Its dump, read by our parser, is our dump: also maps by id and local calls. Helpers' calls are by name there."""
    with contextlib.ExitStack() as stack:
        counts = stack.enter_context(Map(MapSpec("counts", MapType.ARRAY, U32, U64, 7)))
        program = stack.enter_context(Program(spec_of(TEXT), {"counts": counts}))
        number = program.info().id
        command = ["bpftool", "prog", "dump", "xlated", "id", str(number)]
        theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        listed = pyebpf("disasm", "id", str(number)).stdout
        ours = decode(dump_program(number).code)
    loads = [re.findall(r"r\d = map\[[^;\n]*\]", text) for text in (theirs, listed)]
    assert loads[0] == loads[1] != []
    read = [item for item in parse(theirs) if isinstance(item, Instruction)]
    assert len(read) == len(ours) > 13
    differing = [(a, b) for a, b in zip(read, ours, strict=True) if a != b]
    assert [(a.op.name, a.imm) for a, _ in differing] == [("call", 5)]


def test_no_such_program():
    """One line."""
    done = pyebpf("disasm", "id", "4294967294")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "pyebpf disasm: no program with id 4294967294 is loaded\n"
    done = pyebpf("disasm", "id", str(1 << 32))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pyebpf disasm: after `id` comes the number of a loaded program; ")
