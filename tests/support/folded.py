"""Folded stacks read back, for comparing what tools print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData
from pyebpf.output.escape import unescaped

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["parse_folded"]


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
