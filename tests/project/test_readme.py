"""The README keeps its promises."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_in_the_readme_is_an_example_that_is_tested():
    """Each Python block is, to the letter, one of the files in docs/examples, which the tests run."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    examples = {path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "examples").glob("*.py")}
    assert blocks
    assert [block for block in blocks if block not in examples] == []


def test_files_named_in_the_readme_exist():
    """What the README sends its reader to is there."""
    names = re.findall(r"`((?:docs|pyebpf)/[\w/.-]+|[A-Z]+(?:\.md|\.GPL-2\.0)?)`", README)
    assert "CONTRIBUTING.md" in names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_test_command_is_what_ci_runs():
    """The command that the README gives for the tests is a program, and .ci/run runs it, in two halves."""
    assert "\n```sh\n./test\n```\n" in README
    assert os.access(ROOT / "test", os.X_OK)
    steps = (ROOT / ".ci" / "steps").read_text(encoding="utf-8")
    assert re.search(r'^step \d+ "tests" "\$0" "\$results" tests$', steps, re.MULTILINE)
    assert re.search(r"^    local test=\(\./test ", steps, re.MULTILINE)
    halves = re.findall(r'^    "\$\{test\[@\]\}" --record \S+ ([^>&|]+)', steps, re.MULTILINE)
    assert [half.strip() for half in halves] == ["--ignore tests/kernel", "tests/kernel"]
