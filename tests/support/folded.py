"""Names and folded stacks read back from what tools print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["parse_folded", "unescaped"]

_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|\\)")


def unescaped(text: str) -> str:
    """The name that `escaped` or `json_text` made `text` of; undecodable bytes are lone surrogates."""

    def original(found: re.Match[str]) -> str:
        digits = found[1] or found[2] or found[3]
        if digits is None:
            return "\\"
        code = int(digits, 16)
        return chr(code + 0xDC00 if found[1] and code >= 0x80 else code)

    return _ESCAPE.sub(original, text) if "\\" in text else text


def parse_folded(lines: Iterable[str]) -> dict[tuple[str, ...], int]:
    """Stacks and counts of such lines; equal stacks are added up. MalformedData for what is none."""
    found: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(lines, 1):
        stack, _, count = line.rstrip("\n").rpartition(" ")
        if not stack or not (count.isascii() and count.isdecimal()):
            raise MalformedData(f"line {number} is not a folded stack: it has frames, a blank and a count")
        frames = tuple(map(unescaped, stack.split(";")))
        found[frames] = found.get(frames, 0) + int(count)
    return found
