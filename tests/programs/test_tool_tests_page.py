"""docs/tool-tests.md: how each tool of the chapters on networks, disks and processors is tested."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pyebpf.cli.catalogue import names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tool-tests.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \[([\w-]+)\]\(tools/[\w-]+\.md\) \| (\d+) \| `(\w+\.py)` \|", PAGE, re.MULTILINE)


def test_the_page_is_what_the_tools_and_their_tests_say():
    """`python tools/generate_tool_tests_page.py` writes byte for byte what is checked in."""
    command = [sys.executable, ROOT / "tools" / "generate_tool_tests_page.py", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), "run python tools/generate_tool_tests_page.py"


def test_each_tool_is_on_it_once_with_a_test_that_imports_or_starts_it():
    """All three chapters, and no tool twice."""
    assert len({name for name, _, _ in ROWS}) == len(ROWS) == PAGE.count("\n| [") > 60
    assert {name for name, _, _ in ROWS} <= set(names())
    for name, _, test in ROWS:
        text = (ROOT / "tests/kernel" / test).read_text(encoding="utf-8")
        imported = re.search(rf"^from pyebpf\.programs import .*\b{name}\b|import .*\b{name}\b", text, re.MULTILINE)
        assert imported or f'"{name}' in text, name
