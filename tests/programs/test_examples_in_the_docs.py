"""The pages show the files of `docs/examples`, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_examples_shows_files():
    """Each below its name, and no other code."""
    page = (DOCS / "examples.md").read_text()
    shown = dict(re.findall(r"^`(\w+\.py)`\n\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert shown
    assert shown == {name: (DOCS / "examples" / name).read_text() for name in shown}
    assert page.count("```python") == len(shown)


def test_every_example_is_shown():
    """Each file is on the page of examples, or where what it is an example of is explained."""
    blocks = {
        block
        for page in DOCS.glob("*.md")
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    }
    assert [path.name for path in (DOCS / "examples").glob("*.py") if path.read_text() not in blocks] == []
