"""`docs/examples.md` shows the files of `docs/examples`, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_example_is_shown():
    """Each file once, below its name, and no other code."""
    page = (DOCS / "examples.md").read_text()
    shown = dict(re.findall(r"^`(\w+\.py)`\n\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert shown == {path.name: path.read_text() for path in (DOCS / "examples").glob("*.py")}
    assert page.count("```python") == len(shown)
