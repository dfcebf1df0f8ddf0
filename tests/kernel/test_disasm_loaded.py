"""`pyebpf disasm id N`: a loaded program, with its functions, source lines, maps and helpers."""

from __future__ import annotations

import contextlib
import re

from pyebpf.asm import assemble
from pyebpf.objects import Map, Program
from pyebpf.specs import Code, MapKind, MapSpec, ProgramKind, ProgramSpec, Subprogram
from pyebpf.types import U32, U64
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


def test_a_loaded_program_is_listed():
    """Both functions by name, the assembly's lines as its source, the map's name, the helpers that are still calls."""
    instructions = assemble(TEXT, "counts.s")
    with contextlib.ExitStack() as stack:
        counts = stack.enter_context(Map(MapSpec("counts", MapKind.ARRAY, U32, U64, 7)))
        start = next(n for n, i in enumerate(instructions) if i.where.line == 13)
        code = Code(instructions, (Subprogram("first", 0), Subprogram("second", start)))
        spec = ProgramSpec("first", ProgramKind.SOCKET_FILTER, code)
        program = stack.enter_context(Program(spec, {"counts": counts}))
        number = str(program.info().id)
        kernel, mnemonic = pyebpf("disasm", "id", number), pyebpf("disasm", "id", number, "--syntax", "mnemonic")
    assert (kernel.returncode, kernel.stderr) == (0, "")
    lines = kernel.stdout.splitlines()
    assert lines[0] == "first:"
    assert "second:" in lines
    assert re.search(r"^ +\d+ r1 = map\[fd:\d+\]  ; map counts$", kernel.stdout, re.MULTILINE)
    assert "      ; counts.s:9: lock *(u64 *)(r0 + 0) += r1" in lines
    assert re.search(r"^ +\d+ call second$", kernel.stdout, re.MULTILINE)
    assert "bpf_ktime_get_ns" in kernel.stdout
    # Both texts are the same program.
    assert mnemonic.stdout.splitlines()[0] == "first:"
    assert assemble(kernel.stdout) == assemble(mnemonic.stdout)


def test_no_such_program():
    """One line."""
    done = pyebpf("disasm", "id", "4294967294")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "pyebpf disasm: no program with id 4294967294 is loaded\n"
