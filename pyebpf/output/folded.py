"""Folded stacks: a line a stack, outermost frame first, as flame-graph programs read them.

python3;main;work;compute 41
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData
from pyebpf.output.escape import escaped, unescaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["folded_lines", "parse_folded"]


def folded_lines(stacks: Mapping[tuple[str, ...], int]) -> Iterator[str]:
    """The lines of stacks with their counts, the most frequent first; stacks are tuples of names, outermost first.

    Semicolons in names become colons, and what is not printable an escape, which `parse_folded` takes back.
    """
    for stack, count in sorted(stacks.items(), key=lambda item: (-item[1], item[0])):
        yield f"{';'.join(escaped(name).replace(';', ':') for name in stack)} {count}"


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
