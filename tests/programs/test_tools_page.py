"""docs/tools/README.md: every tool, in the order of the book."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pyebpf.cli.catalogue import names

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_tools_and_their_pages_say():
    """`python tools/generate_tools_page.py` writes byte for byte what is checked in."""
    command = [sys.executable, ROOT / "tools" / "generate_tools_page.py", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), "run python tools/generate_tools_page.py"


def test_every_tool_is_on_it_in_the_order_of_the_book():
    """Once each; sections of a chapter rise."""
    page = (ROOT / "docs/tools/README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^### \[([\w-]+)\]", page, re.MULTILINE)) == names()
    chapter = page.partition("## Networking")[2].partition("\n## ")[0]
    sections = [
        tuple(map(int, number.split("."))) for number in re.findall(r"Section ([\d.]+)\.$", chapter, re.MULTILINE)
    ]
    assert sections == sorted(sections)
    assert len(sections) >= 7
