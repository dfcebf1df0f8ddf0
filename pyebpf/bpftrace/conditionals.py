"""Conditional lines of C's preprocessor, `#if`, `#ifdef`, `#elif`, `#else`: which of a script's lines are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.bpftrace.c_numbers import c_number
from pyebpf.bpftrace.lexer import Tokens, tokenize
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.defines import Defines
    from pyebpf.bpftrace.source import Source

#: What bpftrace defines where the kernel has BTF, as every kernel has that this runs on.
_PREDEFINED = frozenset({"BPFTRACE_HAVE_BTF"})
_BEGINNINGS = frozenset({"if", "ifdef", "ifndef"})
#: Lines that decide about others.
WORDS = _BEGINNINGS | {"elif", "else", "endif"}
_NAME = r"[A-Za-z_]\w*"
#: What may hide a line of the preprocessor, and such lines.
_LINE = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|^[ \t]*(?P<place>#)[ \t]*(?P<word>\w+)',
    re.ASCII | re.DOTALL | re.MULTILINE,
)


class _Open:
    """An `#if` whose `#endif` has not come yet."""

    def __init__(self, node: ast.Directive) -> None:
        self.node = node
        #: Whether a branch of it was read, and whether its `#else` has come.
        self.was_read = self.has_else = False


class Conditionals:
    """The conditional lines so far. `parse` makes a tree of an expression's text."""

    def __init__(self, source: Source, defines: Defines, parse: Callable[[str], ast.Expression]) -> None:
        self._source, self._defines, self._parse = source, defines, parse
        self._open: list[_Open] = []

    def behind(self, node: ast.Directive) -> int:
        """Where reading goes on behind a conditional line: at the next one of its `#if` where it does not hold."""
        if node.word in _BEGINNINGS:
            self._open.append(_Open(node))
        elif not self._open:
            raise self._source.error(f"`#{node.word}` stands behind no `#if`", node)
        current = self._open[-1]
        if node.word == "endif":
            self._open.pop()
            return node.end
        if current.has_else:
            raise self._source.error(f"`#{node.word}` stands behind the `#else` of its `#if`", node)
        current.has_else = node.word == "else"
        if current.was_read or not self._holds(node):
            return self._next(node)
        current.was_read = True
        return node.end

    def finish(self) -> None:
        """Complain about an `#if` without its end."""
        if self._open:
            node = self._open[-1].node
            raise self._source.error(f"`#{node.word}` has no `#endif`", node)

    def _next(self, node: ast.Directive) -> int:
        """The place of the next line of the same `#if`."""
        depth = 0
        for line in _LINE.finditer(self._source.text, node.end):
            word = line["word"]
            if word in _BEGINNINGS:
                depth += 1
            elif depth and word == "endif":
                depth -= 1
            elif not depth and word in WORDS:
                return line.start("place")
        return len(self._source.text)

    def _holds(self, node: ast.Directive) -> bool:
        if node.word == "else":
            return True
        if node.word in ("if", "elif"):
            return self._value(node) != 0
        name = re.match(_NAME, node.text, re.ASCII)
        if name is None:
            raise self._source.error(f"`#{node.word}` takes a name: `#{node.word} NAME`", node)
        return self._is_defined(name[0], node) is (node.word == "ifdef")

    def _is_defined(self, name: str, node: ast.Directive) -> bool:
        if name in self._defines or name in _PREDEFINED:
            return True
        if name.startswith("__"):
            raise self._source.error(
                f"whether a compiler defines {name} is not known here: leave the `#{node.word}` out, and keep the "
                "lines that you mean",
                node,
            )
        return False

    def _value(self, node: ast.Directive) -> int:
        """The number that a condition is; a name that nothing defines is 0, as in C."""

        def defined(match: re.Match[str]) -> str:
            return str(int(self._is_defined(match[1] or match[2], node)))

        text = re.sub(r"'([^'\\\n])'", lambda character: str(ord(character[1])), node.text, flags=re.ASCII)
        text = re.sub(rf"\bdefined\s*(?:\(\s*({_NAME})\s*\)|({_NAME}))", defined, text, flags=re.ASCII)
        texts = tokenize(text, 0, len(text)).texts[:-1]
        count = len(texts)
        words = self._defines.put_into(Tokens(texts, [node.start] * count, [node.end] * count)).texts
        for index, word in enumerate(words):
            if re.fullmatch(_NAME, word, re.ASCII):
                if words[index + 1 : index + 2] == ["("]:
                    raise self._source.error(f"`#{node.word}` knows no {word}(): compare numbers and names", node)
                words[index] = str(int(self._is_defined(word, node)))
        if not words:
            raise self._source.error(f"`#{node.word}` takes a condition: `#{node.word} NAME > 1`", node)
        try:
            return c_number(self._source, self._parse(" ".join(words)), "it", {})
        except CompileError as error:  # its place is one in the condition's text
            raise self._source.error(f"`#{node.word}` takes a condition: {error.message}", node) from None
