"""The changes that CONTRIBUTING.md shows as diffs are those that were made."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def shown() -> list[tuple[str, str]]:
    """File and line of each line that a diff of the page adds."""
    found = []
    for block in re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL):
        file = ""
        for line in block.splitlines():
            if line.startswith("+++ "):
                file = line.removeprefix("+++ ")
            else:
                found.append((file, line.removeprefix("+")))
    return found


def test_every_line_of_a_diff_is_in_its_file() -> None:
    """With its indentation; a page of three changes has some dozens of them."""
    lines = shown()
    assert len(lines) > 30
    missing = [f"{file}: {line}" for file, line in lines if line not in (ROOT / file).read_text().splitlines()]
    assert missing == []
