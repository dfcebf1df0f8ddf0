"""docs/performance.md: whoever reads a figure can make it again."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"python -m benchmarks\.(\w+)((?: --?\w+)*)")


def test_each_command_exists():
    """Every command of the page names a module of benchmarks/, and only options that it knows."""
    commands = COMMAND.findall(PAGE)
    assert commands
    for module, options in commands:
        source = ROOT / "benchmarks" / f"{module}.py"
        assert source.exists(), module
        for option in options.split():
            assert f'"{option}"' in source.read_text(encoding="utf-8"), f"{module} {option}"


def test_each_benchmark_is_on_the_page():
    """Every module of benchmarks/ that can be run and prints figures has its place there."""
    told = {module for module, _ in COMMAND.findall(PAGE)}
    runnable = {
        path.stem
        for path in (ROOT / "benchmarks").glob("*.py")
        if "table(" in (text := path.read_text(encoding="utf-8")) and "__main__" in text
    }
    assert runnable <= told


def test_each_table_says_how_it_was_made():
    """Above each table stands the command, and the page says when and on what machine it ran."""
    sections = PAGE.split("\n## ")[1:]
    for section in sections:
        if "\n| " in section:
            assert COMMAND.search(section.partition("\n| ")[0]), section.splitlines()[0]
    assert re.search(r"\b20\d\d-\d\d-\d\d\b", PAGE)
