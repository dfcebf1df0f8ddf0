"""What the command shows when the verifier refuses a program: a line, the source, a caret; the log with -v."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.programs import opensnoop

# The compiler's own None check is switched off: without it the error would come before the verifier.
SCRIPT = """\
from pyebpf import BPF, Struct, pid, u32, u64
from pyebpf.builder.ssa.function import FunctionBuilder

FunctionBuilder.is_non_null = lambda *_: True
bpf = BPF()

class Entry(Struct):
    seen: u64
    failed: u64

entries = bpf.hash(key=u32, value=Entry)

@bpf.tracepoint("sched:sched_switch")
def count() -> None:
    entry = entries.get(pid())
    entry.failed += 1

with bpf:
    print("attached")
"""
CATCHING = """\
from pyebpf import VerifierError

try:
    bpf.load()
except VerifierError as error:
    print(error.location.line, error.log, sep="\\n")
"""
LINE = SCRIPT.splitlines().index("    entry.failed += 1") + 1

# A shipped tool, loaded under a licence with which its helpers are out of reach.
TOOL = """\
import sys
from pyebpf.cli import main
from pyebpf.kernel import bpf

load = bpf.prog_load
bpf.prog_load = lambda *given, **named: load(*given, **{**named, "license": "Proprietary"})
raise SystemExit(main(sys.argv[1:]))
"""


def run(*arguments: str, given: str | None = None) -> tuple[int, str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], input=given, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


def check(lines: list[str], start: str, source: str) -> None:
    first, shown, caret = lines
    assert first.startswith(start), first
    assert shown == f"    {source}"
    assert set(caret.strip()) == {"^"}
    assert caret.index("^") >= 4


@pytest.mark.parametrize("where", ["file", "standard input"])
def test_a_script_ends_with_one_line_and_the_source(tmp_path: Path, where: str) -> None:
    """Exit status 1, nothing on standard output, no traceback."""
    file = tmp_path / "refused.py"
    file.write_text(SCRIPT)
    name = str(file) if where == "file" else "-"
    status, out, lines = run("-m", "pyebpf", "run", name, given=SCRIPT if name == "-" else None)
    assert (status, out) == (1, "")
    shown = name if where == "file" else "<stdin>"
    check(lines, f"pyebpf run: {shown}:{LINE}: count: R0 invalid mem access ", "entry.failed += 1")
    assert lines[0].endswith("check `is None` on this path before using it")


def test_a_script_that_catches_it_has_the_whole_log(tmp_path: Path) -> None:
    """`error.log` is all that the verifier printed, `error.location` the place."""
    file = tmp_path / "refused.py"
    caught = (
        "try:\n    bpf.load()\nexcept VerifierError as error:\n    print(error.location.line, error.log, sep='\\n')\n"
    )
    file.write_text(SCRIPT.replace("with bpf:", f"from pyebpf import VerifierError\n{caught}if False:"))
    status, out, lines = run(str(file))
    assert (status, lines) == (0, [])
    line, *log = out.splitlines()
    assert int(line) == LINE
    assert any(each.startswith("processed ") for each in log)
    assert any("invalid mem access" in each for each in log)


def test_a_tool_shows_the_log_when_asked() -> None:
    """Without -v a line, the source and a caret; with it the log before them."""
    source = Path(opensnoop.__file__)
    # Of two places the first is for -F.
    *_, (number, text) = (
        (number, line.strip())
        for number, line in enumerate(source.read_text().splitlines(), 1)
        if line.strip().startswith("path=user_string(")
    )
    start = f"pyebpf opensnoop: {source}:{number}: "
    status, out, lines = run("-c", TOOL, "opensnoop")
    assert (status, out) == (1, "")
    check(lines, start, text)
    assert "the helper is for GPL-compatible programs only" in lines[0]
    status, out, lines = run("-c", TOOL, "opensnoop", "-v")
    assert (status, out) == (1, "")
    check(lines[-3:], start, text)
    assert any(line.startswith("processed ") for line in lines[:-3])
