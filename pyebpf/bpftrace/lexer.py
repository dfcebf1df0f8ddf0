"""Tokens of a script, and where its parts end.

Attach points are not made of tokens: `uprobe:/usr/lib/*.so:f` would begin a comment. So a script is read part by part.
The parser takes attach points as text, then asks for the tokens from there to the end of that probe's block.
"""

from __future__ import annotations

import re
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyebpf.bpftrace.source import Source

_LAYOUT = r"(?:\s+|//[^\n]*|/\*[\s\S]*?\*/)*"
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
# What can move the end of a block, or hide such a sign. A slash before a brace ends a predicate.
_find_sign = re.compile(rf'[{{}};]|{_STRING}|"|//[^\n]*|/\*[\s\S]*?\*/|/\*|/(?={_LAYOUT}\{{)', re.ASCII).search


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
    """Where the next token begins, behind spaces and comments."""
    match = _skip(source.text, position)
    position = match.end() if match is not None else position
    if source.text.startswith("/*", position):
        raise source.error_at("this comment has no end: write `*/`", position, position + 2)
    return position


def end_of_block(source: Source, position: int, *, predicate: bool = False) -> int:
    """Where the block ends whose `{` is the next one, behind the predicate if there is one.

    CompileError where a brace, a string or a comment is left open.
    """
    text, opened = source.text, []
    while (match := _find_sign(text, position)) is not None:
        sign, start = match[0], match.start()
        position = match.end()
        if sign == "{":
            opened.append(start)
        elif sign == "}":
            if not opened:
                raise source.error_at("this `}` has no `{`: leave it out", start, position)
            opened.pop()
            if not opened and not predicate:
                return position
        elif sign == "/":
            # Within a block it divides, and the block after it is a value.
            predicate = predicate and bool(opened)
        elif sign in ('"', "/*"):
            raise source.error_at(
                'this string has no end on its line: write `"`'
                if sign == '"'
                else "this comment has no end: write `*/`",
                start,
                position,
            )
    if opened:
        raise source.error_at("this `{` has no `}`", opened[-1], opened[-1] + 1)
    return len(text)


def end_of_statement(source: Source, position: int) -> int:
    """The place behind the next semicolon; the end of the text if there is none."""
    while (match := _find_sign(source.text, position)) is not None:
        position = match.end()
        if match[0] == ";":
            return position
    return len(source.text)
