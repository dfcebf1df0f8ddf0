"""Regular expressions that may take for ever: those that repeat a repetition, and many repetitions on a long text."""

from __future__ import annotations

import re

from pyebpf.dsl.steps import ABOVE, TooMuch
from pyebpf.dsl.text_of import text_of

_MAX_BACKTRACKING = 10_000_000


def check_pattern(owner: object, function: object, arguments: list[object], given: list[object]) -> list[object]:
    """Regular expressions: a repetition inside a repetition, or many on a long text, may take for ever."""
    if isinstance(owner, re.Pattern):
        pattern, texts = owner.pattern, given
    elif arguments and text_of(function) not in ("compile", "escape", "purge", "template"):
        pattern, texts = getattr(arguments[0], "pattern", arguments[0]), given[1:]
    else:
        return arguments
    length = max((len(each) for each in texts if isinstance(each, (str, bytes))), default=0)
    if isinstance(pattern, (str, bytes)) and may_backtrack(pattern, length):
        raise TooMuch(f"cannot prove that the regular expression {pattern!r} ends soon: {ABOVE}")
    return arguments


def may_backtrack(pattern: str | bytes, length: int) -> bool:
    """Whether a regular expression may have too many ways to match a text of a length."""
    shown = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    return _backtracking(shown, length) > _MAX_BACKTRACKING


def _backtracking(pattern: str, length: int) -> int:
    """About how many ways there are to match a text of a length."""
    pattern = re.sub(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]", "x", pattern, flags=re.DOTALL)
    total, open_ = 1, [False]
    for at, sign in enumerate(pattern):
        repeats = sign in "*+{" and at > 0
        if sign == "(":
            open_.append(False)
        elif sign == ")" and len(open_) > 1:
            inner = open_.pop()
            if inner and pattern[at + 1 : at + 2] in ("*", "+", "{"):
                return 1 << min(length, 64)
            open_[-1] |= inner
        elif repeats or sign in "?|":
            open_[-1] = True
            total *= length + 1 if repeats else 2
    return total * (length + 1)
