"""docs/vm.md shows what these tests run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyebpf.asm import Form, Instruction, find_op
from pyebpf.asm.build import R0, R1, exit_, mov64
from pyebpf.errors import Location, VmError
from pyebpf.vm import run

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "vm.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_examples_are_tests():
    """Each Python block is an example with tests of its own, a test of test_tools.py, to the letter, or runs here."""
    tests = (ROOT / "tests" / "vm_interpreter" / "test_tools.py").read_text(encoding="utf-8")
    examples = {path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "examples").glob("*.py")}
    own = [block for block in BLOCKS if block not in examples]
    assert len(own) == 3
    for block in own:
        if block.startswith("def test_"):
            assert block in tests
        else:
            exec(block, {})


def test_the_refusal_is_what_is_said():
    """The error that the page shows."""
    where = Location("tool.py", 17)
    load = Instruction(find_op("ldxw", Form.LOAD), R0, R1, 0, where=where)
    with pytest.raises(VmError) as caught:
        run([mov64(R1, 0), load, exit_()])
    assert f"```\n{caught.value}\n```" in TEXT
