"""Tokens of a script, and where its parts end.

Attach points are not made of tokens: `uprobe:/usr/lib/*.so:f` would begin a comment. So a script is read part by part.
The parser takes attach points as text, then asks for the tokens from there to the end of that probe's block.
"""

from __future__ import annotations

import re
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.bpftrace.source import Source

# Atomic and possessive: what was skipped is not tried in other lengths when something else is missing behind it.
_LAYOUT = r"(?>\s+|//[^\n]*|/\*[\s\S]*?\*/)*+"
_STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_skip = re.compile(_LAYOUT, re.ASCII).match
_find_tokens = re.compile(
    rf"""({_LAYOUT})(
    [A-Za-z_]\w* |
    \$(?:[A-Za-z_]\w*|\d+|\#) |
    @(?:[A-Za-z_]\w*)? |
    \d\w* |
    {_STRING} |
    <<=|>>=|->|\+\+|--|\.\.|&&|\|\||<<|>>|[-+*/%&|^=!<>]= |
    [\s\S] |
    \Z)""",
    re.ASCII | re.VERBOSE,
).findall
_QUOTED = rf'{_STRING}|"|//[^\n]*|/\*[\s\S]*?\*/|/\*'
# What can move the end of a block, or hide such a sign. A slash before a brace ends a predicate.
_BLOCK_SIGN = re.compile(rf"[{{}}]|{_QUOTED}|/(?={_LAYOUT}\{{)", re.ASCII)
# What can end a short statement. Few scripts have one, so that this is compiled when it is first used.
_STATEMENT_SIGN = rf"[;)]|{_QUOTED}"


class Tokens(NamedTuple):
    """Texts of tokens with their first characters and those behind their last; an empty token stands at the end."""

    texts: list[str]
    starts: list[int]
    ends: list[int]


def tokenize(text: str, begin: int, end: int) -> Tokens:
    """The tokens of a part of a text. A character that begins none is a token by itself."""
    pairs: list[tuple[str, str]] = _find_tokens(text, begin, end)
    places = list(accumulate(map(len, chain.from_iterable(pairs)), initial=begin))
    return Tokens([token for _, token in pairs], places[1::2], places[2::2])


def skip_layout(source: Source, position: int) -> int:
    """The place of the next token, behind spaces and comments."""
    match = _skip(source.text, position)
    position = match.end() if match is not None else position
    if source.text.startswith("/*", position):
        raise source.error_at("this comment has no end: write `*/`", position, position + 2)
    return position


def _signs(source: Source, pattern: re.Pattern[str], position: int) -> Iterator[re.Match[str]]:
    """Matches of the pattern that are neither strings nor comments. CompileError for one of those that is left open."""
    for match in pattern.finditer(source.text, position):
        sign = match[0]
        if len(sign) == 1 and sign != '"':
            yield match
        elif sign in ('"', "/*"):
            end = 'string has no end on its line: write `"`' if sign == '"' else "comment has no end: write `*/`"
            raise source.error_at(f"this {end}", match.start(), match.end())


def end_of_block(source: Source, position: int, *, predicate: bool = False) -> int:
    """The end of the block whose `{` is the next one, behind the predicate if there is one.

    CompileError where a brace, a string or a comment is left open.
    """
    opened: list[int] = []
    for match in _signs(source, _BLOCK_SIGN, position + predicate):  # the slash that begins a predicate ends none
        sign = match[0]
        if sign == "{":
            opened.append(match.start())
        elif sign == "/":
            # Within a block it divides, and the block behind it is a value.
            predicate = predicate and bool(opened)
        elif not opened:
            raise source.error_at("this `}` has no `{`: leave it out", match.start(), match.end())
        else:
            opened.pop()
            if not opened and not predicate:
                return match.end()
    if opened:
        raise source.error_at("this `{` has no `}`", opened[-1], opened[-1] + 1)
    return len(source.text)


def end_of_statement(source: Source, position: int, closer: str) -> int:
    """The place behind the next `closer`, a semicolon or a parenthesis; the end of the text if there is none."""
    for match in _signs(source, re.compile(_STATEMENT_SIGN, re.ASCII), position):
        if match[0] == closer:
            return match.end()
    return len(source.text)
