"""A place among tokens, and how a parser moves it, complains there, and bounds how deep it goes."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from pyebpf.bpftrace.lexer import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.bpftrace.source import Source

#: Levels of expressions and blocks inside each other: of so many parentheses, or of a sum of so many terms.
MAX_LEVELS = 200
#: What to do about an expression that has more.
_ADVICE = "assign a part of it to a variable"
# Python's frames for a level: operators of all powers in each other.
_FRAMES = MAX_LEVELS * 20
_LONGEST = 40  # characters of a token that a message shows

_NAME_STARTS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")


def is_name(word: str) -> bool:
    """Whether a token is an identifier or a keyword."""
    return word[:1] in _NAME_STARTS


@contextmanager
def room() -> Iterator[None]:
    """Let the body recurse as deep as `MAX_LEVELS` needs. Frames of Python functions take no room on the C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 1000) + _FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Cursor:
    """The tokens of a part of a script, and the index of the next one.

    `height` is how many levels the tree has that was read last. `depth` counts the expressions that are being read.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.index = 0
        self.depth = 0
        self.height = 0

    def load(self, begin: int, end: int) -> None:
        """Go to the first token of a part of the script."""
        self.tokens, self.starts, self.ends = tokenize(self.source.text, begin, end)
        self.index = 0

    def accept(self, word: str) -> bool:
        """Step over a token if it is the next one."""
        if self.tokens[self.index] != word:
            return False
        self.index += 1
        return True

    def expect(self, word: str, where: str) -> None:
        """Step over a token, which must be the next one."""
        if self.tokens[self.index] != word:
            self.unexpected(f"`{word}`", where)
        self.index += 1

    def expect_name(self, what: str, where: str) -> str:
        """Step over a name, which must be the next token."""
        word = self.tokens[self.index]
        if not is_name(word):
            self.unexpected(what, where)
        self.index += 1
        return word

    def enter(self, advice: str = _ADVICE) -> None:
        """Go one level deeper, if that is not too deep."""
        self.depth += 1
        if self.depth > MAX_LEVELS:
            self.fail(f"this is more than {MAX_LEVELS} levels deep: {advice}")

    def rise(self, height: int, message: str = f"this has more than {MAX_LEVELS} levels: {_ADVICE}") -> None:
        """Count a level above a tree of that height and the one that was read last."""
        self.height = max(height, self.height) + 1
        if self.height > MAX_LEVELS:
            self.fail(message, self.index - 1)

    def fail(self, message: str, index: int | None = None) -> NoReturn:
        """Complain about a token; without an index about the next one."""
        index = self.index if index is None else index
        raise self.source.error_at(message, self.starts[index], self.ends[index])

    def unexpected(self, expected: str, where: str) -> NoReturn:
        """Complain that the next token is something else."""
        word = self.tokens[self.index]
        if word == "'":
            self.fail('there are no single quotes: write a string as "a", and a character as its number')
        if word == "=" and expected in ("`)`", "`]`", "`/`"):
            where += " (to compare, write `==`)"
        before = self.tokens[self.index - 1] if self.index else ""
        if word in _PYTHON or before == "not":
            word, where = (word, where) if word in _PYTHON else (before, where)
            self.fail(f"{expected} is expected {where}, not {shown(word)}: write `{_PYTHON[word]}` for it")
        self.fail(f"{expected} is expected {where}, not {shown(word)}")


#: Operators of Python's, by those of C.
_PYTHON = {"and": "&&", "or": "||", "not": "!"}


def shown(word: str) -> str:
    """A token as a message names it."""
    if not word:
        return "the end"
    if not word.isprintable():
        return f"the character {word!a}"
    return f"`{word if len(word) <= _LONGEST else word[:_LONGEST] + '…'}`"
