"""docs/asm.md: its tables are the instruction table, its examples what the commands say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "asm.md").read_text(encoding="utf-8")


def test_regenerating_gives_the_same_tables():
    """tools/generate_asm_page.py writes byte for byte what is checked in."""
    command = [sys.executable, ROOT / "tools" / "generate_asm_page.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


SESSIONS = [
    (command, output)
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for command, output in re.findall(r"\$ (.*)\n((?:(?!\$ ).*\n)*)", block)
]


@pytest.mark.parametrize(("command", "output"), SESSIONS, ids=[command for command, _ in SESSIONS])
def test_sessions_are_what_the_commands_print(command, output):
    """Each command of the page, run by a shell."""
    line = command.replace("pyebpf ", f"{sys.executable} -m pyebpf ")
    done = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == output


def test_the_python_example_runs(capsys):
    """As it stands on the page. The others are files of docs/examples, which have tests of their own."""
    examples = {path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "examples").glob("*.py")}
    (source,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if block not in examples]
    exec(source, {})
    assert capsys.readouterr().out == "    0 ldxw %r0, [%r1+8]\n    1 add %r0, 5\n    2 exit\n\n"
