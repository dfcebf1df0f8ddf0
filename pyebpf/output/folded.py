"""Folded stacks read back: lines `python3;main;work 41`, as `-f` prints them, and other programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData
from pyebpf.output.stacks import LONGEST_NAME, cut_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|\\)")
#: Characters of a line that are enough for a name of LONGEST_NAME: an escape takes ten at most.
_LONGEST_ESCAPED = 10 * (LONGEST_NAME + 1)
#: Digits of a count: those of a u64.
_DIGITS = 20


def read_folded(lines: Iterable[str], name: str = "the input") -> dict[tuple[str, ...], int]:
    """The stacks with their counts, those of equal lines added up. Raises MalformedData with the number of the line.

    Escapes in names are what they stand for. Names are kept once, however many stacks have them, and cut if they are
    longer than LONGEST_NAME.
    """
    found: dict[tuple[str, ...], int] = {}
    known: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.rstrip()  # the first name may begin with a blank
        if not text:
            continue
        frames, _, count = text.rpartition(" ")
        if not frames or not (count.isascii() and count.isdigit() and len(count) <= _DIGITS):
            raise MalformedData(
                f"{name}: line {number} is not a folded stack: it has frames with semicolons between them, a blank and "
                "a count"
            )
        # A list first: a tuple of a generator's is twice as slow.
        stack = tuple([known.get(frame) or _learnt(known, frame) for frame in frames.split(";")])
        found[stack] = found.get(stack, 0) + int(count)
    return found


def _learnt(known: dict[str, str], frame: str) -> str:
    if len(frame) > _LONGEST_ESCAPED:
        return cut_name(_ESCAPE.sub(_original, frame[:_LONGEST_ESCAPED]))
    name = known[frame] = cut_name(_ESCAPE.sub(_original, frame) if "\\" in frame else frame)
    return name


def _original(escape: re.Match[str]) -> str:
    """The character of an escape of `escaped`; a byte that was no text is a lone surrogate."""
    digits = escape[1] or escape[2] or escape[3]
    if digits is None:
        return "\\"
    code = int(digits, 16)
    if code > 0x10FFFF:
        return escape[0]
    return chr(code + 0xDC00 if escape[1] and code >= 0x80 else code)
