"""The pages show the files of `docs/examples`, to the letter."""

from __future__ import annotations

import ast
import builtins
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


def test_the_index_has_every_example_with_its_arguments():
    """A row for each file, in their order: its usage, and the page that shows it."""
    page = (DOCS / "examples.md").read_text()
    row = re.compile(
        r"^\| \[`(\w+\.py)`\]\(examples/(\w+\.py)\) \| (.+?) \| (.+?) \| \[.+?\]\((.*?)\) \|$", re.MULTILINE
    )
    rows = row.findall(page)
    files = sorted((DOCS / "examples").glob("*.py"))
    assert [name for name, *_ in rows] == [path.name for path in files]
    for (name, linked, arguments, _, where), path in zip(rows, files, strict=True):
        text = path.read_text()
        usage = re.findall(r'sys\.exit\("usage: (.*)"\)$', text, re.MULTILINE)
        if usage:
            assert [f"{name} {each}" for each in re.findall(r"`(.+?)`", arguments)] == usage[0].split(", or ")
        else:
            assert "sys.argv[" not in text or arguments.startswith("`["), name
        shown = page if where.startswith("#") else (DOCS / where).read_text()
        assert linked == name
        assert text in shown


def undefined(block):
    """Names that a program's text reads and nothing in it binds."""
    nodes = list(ast.walk(ast.parse(block)))
    bound = {alias.asname or alias.name.partition(".")[0] for n in nodes if hasattr(n, "names") for alias in n.names}
    bound |= {
        n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler))
    }
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    bound |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return sorted(read - bound - set(dir(builtins)) - {"__file__"})


def test_a_block_that_imports_something_imports_all_that_it_uses():
    """So that it runs as it is copied; blocks without imports are fragments, and their pages say what they assume."""
    found = [
        (page.name, names)
        for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md"))
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        if re.search(r"^(?:from|import) ", block, re.MULTILINE)
        and "from pyebpf import *" not in block
        and page.name != "language.md"  # where all blocks begin with the first one
        and (names := undefined(block))
    ]
    assert found == []


def anchors(page):
    """The names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    """To a file or folder of the project, and in a page to a heading."""
    lost = []
    for page in (DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *DOCS.rglob("*.md")):
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, heading = link.partition("#")
            target = page.parent / file if file else page
            if "://" not in link and not (target.exists() and (not heading or heading in anchors(target))):
                lost.append((page.name, link))
    assert lost == []
