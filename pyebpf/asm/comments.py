"""Comments of both syntaxes: `;`, `//`, `#` beside a space, and `/* */`, also over several lines."""

from __future__ import annotations

import re

from pyebpf.errors import AssemblyError, Location

# `#` is a part of `call bpf_loop#181`, which the verifier prints.
_MARKS = r"//|(?:(?<=\s)|^)\#|\#(?=[ \t])"
_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
# A quoted name, or (2) the mark that a comment starts with.
COMMENT = re.compile(rf"({_QUOTED})|(;|{_MARKS}).*")
# After an instruction's `;` a block may start, which is no more than a comment at the start of a line.
_BLOCK = re.compile(
    rf"{_QUOTED} | ^[ \t]*;[^\n]* | ;(?![ \t]*/\*)[^\n]* | (?:{_MARKS})[^\n]* | (?P<block>/\*)(?:.*?(?P<end>\*/) | .*)",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def without_blocks(text: str, file: str) -> str:
    """The text with blanks for each `/* */`, so that all else keeps its place. AssemblyError for one without an end."""

    def blank(found: re.Match[str]) -> str:
        if found["block"] is None:
            return found[0]
        if found["end"] is None:
            start = text.rfind("\n", 0, found.start()) + 1
            line = text[start:].partition("\n")[0]
            place = Location(
                file, text.count("\n", 0, start) + 1, found.start() - start, found.start() - start + 2, line
            )
            raise AssemblyError("a comment starts here and has no end: write `*/` behind it", place)
        return re.sub(r"[^\n]", " ", found[0])

    return _BLOCK.sub(blank, text)
