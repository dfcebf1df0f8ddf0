"""Source found where no file has it: the interpreter's arguments, the line editor's history."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from pyebpf.dsl.source import find_source
from pyebpf.dsl.typed_source import _argument
from pyebpf.errors import CompileError


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-c", "x"], "x"),
        (["-cx"], "x"),
        (["-Ic", "x", "-c", "y"], "x"),
        (["-W", "c", "-X", "c", "-Bc", "x"], "x"),
        (["-Wc", "-Xc", "-c", "x"], "x"),
        (["--check-hash-based-pycs", "always", "-c", "x"], "x"),
        (["-c"], None),
        (["file.py", "-c", "x"], None),
        (["-", "-c", "x"], None),
        ([], None),
    ],
)
def test_what_stands_behind_c(arguments, text):
    """By itself, with other letters, attached; not what a script's own arguments have."""
    assert _argument(arguments) == text


HISTORY = """\
import this
def other(): return 1
def f():
    return 1

x = [
  1,
]
@print
def g():
    if x:
        return 2
    else:
        return 3

h = lambda: 4
@decorate(
    1
)
def g():
    return 6
def f():
    return 5

f()
"""


@pytest.fixture
def history(monkeypatch):
    """A line editor that has a history."""
    lines = [line for line in HISTORY.splitlines() if line]  # empty lines are not kept
    readline = ModuleType("readline")
    readline.get_current_history_length = lambda: len(lines)
    readline.get_history_item = lambda number: lines[number - 1]
    monkeypatch.setitem(sys.modules, "readline", readline)
    return lines


def typed(text, name="f"):
    """The function that a prompt makes of a statement."""
    names = {"x": [1], "print": lambda function: function, "decorate": lambda _: lambda function: function}
    exec(compile(text, "<stdin>", "single"), names)
    return names[name]


@pytest.mark.parametrize(
    ("text", "name", "lines"),
    [
        ("def f():\n    return 5\n", "f", 2),
        ("def f():\n    return 1\n", "f", 2),
        ("@decorate(\n    1\n)\ndef g():\n    return 6\n", "g", 5),
        ("@print\ndef g():\n    if x:\n        return 2\n    else:\n        return 3\n", "g", 6),
        ("h = lambda: 4\n", "h", 1),
        ("def other(): return 1\n", "other", 1),
    ],
)
def test_a_statement_of_the_history(history, text, name, lines):
    """The one whose code it is, also where a later one has the same name."""
    source = find_source(typed(text, name))
    assert "".join(source.lines) == text
    assert len(source.lines) == lines


def test_what_the_history_has_not(history):
    """A function that was never typed, and one whose code is another, are refused as without a history."""
    for text in ("def f():\n    return 7\n", "def missing():\n    return 1\n"):
        with pytest.raises(CompileError, match="cannot be read"):
            find_source(typed(text, text[4:].partition("(")[0]))
