"""Source that stands in no file: what follows `python -c`, and what was typed at Python's own prompt.

Since Python 3.13 `inspect` finds both; IPython and Jupyter keep theirs in `linecache`. Before, the first is found among
the interpreter's arguments, and the second in the history of the line editor. Whoever asks compares what is found with
the live code, so that more may be offered here than is right.
"""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FunctionType

_MAX_LINES = 2000  # of the history, from its end
_LONGEST = 400  # lines of a statement
_OPTIONS_WITH_VALUE = "WX"


def typed_sources(function: FunctionType) -> Iterator[tuple[str, ...]]:
    """Texts, as lines, that a function may come from; the likeliest first."""
    from inspect import findsource

    code = function.__code__
    with suppress(OSError, IndexError):
        yield tuple(findsource(function)[0])
    if code.co_filename == "<string>":
        text = _argument(sys.orig_argv[1:])
        if text is not None:
            yield tuple(text.splitlines(keepends=True))
            yield tuple(dedent(text).splitlines(keepends=True))  # as Python 3.14 does with it
    elif code.co_filename.startswith("<stdin"):
        yield from _statements(_history(), code)


def _argument(arguments: list[str]) -> str | None:
    """The text behind -c, which may be one of several letters: `-Ic TEXT`."""
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-") or argument == "-":
            return None
        if argument.startswith("--"):
            next(rest, None)  # --check-hash-based-pycs VALUE is the only one that may come before
            continue
        for at, letter in enumerate(argument[1:], 2):
            if letter == "c":
                return argument[at:] or next(rest, None)
            if letter in _OPTIONS_WITH_VALUE:
                if not argument[at:]:
                    next(rest, None)
                break
    return None


def _history() -> list[str]:
    """The lines typed last; none where there is no line editor."""
    readline = sys.modules.get("readline")  # whoever typed at a prompt has it
    if readline is None:
        return []
    last: int = readline.get_current_history_length()
    return [readline.get_history_item(number) or "" for number in range(max(1, last - _MAX_LINES + 1), last + 1)]


def _statements(lines: list[str], code: CodeType) -> Iterator[tuple[str, ...]]:
    """Each statement of the history that may define the function, the last first: Python counts its lines from 1."""
    wanted = "lambda" if code.co_name == "<lambda>" else f"def {code.co_name}"
    last = max(line for *_, line in code.co_lines() if line is not None)
    for start in range(len(lines) - 1, -1, -1):
        if not lines[start] or lines[start][0].isspace() or start + last > len(lines):
            continue
        # As long as the code at least: what begins below a decorator of several lines is shorter.
        for end in range(start + last, min(start + _LONGEST, len(lines)) + 1):
            following = lines[end] if end < len(lines) else ""
            if following[:1].isspace() or not any(wanted in line for line in lines[start:end]):
                continue
            text = "".join(f"{line}\n" for line in lines[start:end])
            try:
                statements = ast.parse(text).body
            except (SyntaxError, ValueError):
                continue
            if len(statements) == 1 and (statements[0].end_lineno or 0) >= last:
                yield tuple(text.splitlines(keepends=True))
            break
