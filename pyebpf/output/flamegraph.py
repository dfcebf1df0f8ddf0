"""Flame graphs: stacks with counts as one interactive SVG file that needs nothing else.

A box is a function as it was called by those below it; its width is its share of all samples. A click zooms, Ctrl-F or
"/" searches, Escape undoes both; arrows go from box to box, and Enter zooms. The address's fragment has the view, so a
link to it can be shared. Without scripts it is a picture with tooltips.

A graph of the difference between two recordings takes them as equally long: shares are compared, not counts.
"""

from __future__ import annotations

import re
from heapq import heappush, heappushpop
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple
from zlib import crc32

from pyebpf.output.flamegraph_page import SCRIPT, STYLE
from pyebpf.output.stacks import BETWEEN_PARTS, cut_name
from pyebpf.output.svg import xml_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDTH, _MARGIN, _HEIGHT, _TOP, _BOTTOM = 1200, 10, 16, 34, 24
_INNER = _WIDTH - 2 * _MARGIN
_CHARACTER = 7.0  # pixels of a 12-pixel monospaced font
_MARKS = re.compile(r"_\[([kj])\]$")
# Hue, saturation, lightness, and how far a name moves the hue: the kernel's functions, compiled just in time, others.
_COLOURS = {"k": (28, 85, 64, 8), "j": (120, 45, 62, 15), "": (8, 78, 62, 18)}
_BLUES = {"k": (190, 52, 70, 6), "j": (160, 42, 66, 6), "": (214, 72, 68, 8)}
_VIOLETS = {"k": (310, 45, 76, 6), "j": (335, 50, 72, 6), "": (268, 58, 74, 8)}
_GREENS = {"k": (78, 48, 66, 6), "j": (52, 60, 66, 6), "": (128, 40, 64, 8)}
_RED, _BLUE = 4, 214
_DIVIDER_COLOUR = "hsl(220,8%,46%)"

Palette = Literal["samples", "off-cpu", "wakeups"]
#: Colours of a stack, and of the parts that stand above it, which take turns.
_PALETTES = {
    "samples": (_COLOURS, (_COLOURS,)),
    "off-cpu": (_BLUES, (_VIOLETS, _GREENS)),
    "wakeups": (_VIOLETS, (_GREENS, _VIOLETS)),
}
PALETTES: tuple[Palette, ...] = ("samples", "off-cpu", "wakeups")

#: Boxes of a picture at most: more than a screen has room for, and few enough for a browser. The widest are kept.
MAX_BOXES = 20_000
#: Characters of a name in a box, which has it twice.
_LONGEST = 1024
#: Numbers up to here are exact in a browser's script.
_EXACT = 1 << 52
_Stacks = list[tuple[tuple[str, ...], int, int]]


class _Box(NamedTuple):
    """A function below those that called it; what was counted of it, and to the left of it, in both recordings.

    `part` is the number of dividers below it: 0 in the stack itself, 1 in that of its waker.
    """

    name: str
    depth: int
    before: int
    after: int
    left_before: int
    left_after: int
    part: int


def flame_graph(
    stacks: Mapping[tuple[str, ...], int],
    *,
    title: str = "Flame graph",
    unit: str = "samples",
    inverted: bool = False,
    palette: Palette = "samples",
    max_boxes: int = MAX_BOXES,
) -> str:
    """An SVG document of stacks, tuples of names with the outermost first, and their counts.

    Functions are ordered by name, so that equal profiles look alike. Those that end in `_[k]` (the kernel's) and
    `_[j]` (compiled just in time) have colours of their own. The `palette` is that of stacks of what runs, of what is
    blocked ("off-cpu") or of who wakes ("wakeups"); in the latter two what stands above a `--` has colours of another
    hue, in turns. `inverted` has the outermost on top. `data-x`, `data-w`
    and `data-depth` of each box say what it stands for: samples to its left, its samples, and how deep it is.
    """
    rows = sorted((stack, 0, count) for stack, count in stacks.items() if count > 0)
    return _Picture(rows, title, unit, inverted=inverted, compared=False, palette=palette).drawn(max_boxes)


def difference_graph(
    before: Mapping[tuple[str, ...], int],
    after: Mapping[tuple[str, ...], int],
    *,
    title: str = "Difference",
    unit: str = "samples",
    inverted: bool = False,
    max_boxes: int = MAX_BOXES,
) -> str:
    """An SVG document of what changed from one recording to another: what grew is red, what shrank blue.

    A box is as wide as the mean of its shares in both, so what is new and what has gone have half the width that they
    have or had. The more of a function came or went, the stronger is its colour: one that is new is all red.
    """
    rows = sorted(
        (stack, max(before.get(stack, 0), 0), max(after.get(stack, 0), 0)) for stack in before.keys() | after.keys()
    )
    rows = [row for row in rows if row[1] or row[2]]
    return _Picture(rows, title, unit, inverted=inverted, compared=True).drawn(max_boxes)


class _Picture:
    """The boxes of stacks, and how they are drawn."""

    def __init__(
        self,
        rows: _Stacks,
        title: str,
        unit: str,
        *,
        inverted: bool,
        compared: bool,
        palette: Palette = "samples",
    ) -> None:
        self.rows = rows
        self.palette = palette
        self.title, self.unit = title, unit
        self.inverted, self.compared = inverted, compared
        self.before = sum(before for _, before, _ in rows)
        self.after = sum(after for _, _, after in rows)
        # Of two recordings each counts half: a sample has the weight of the other recording's total.
        self.factors = (self.after or 1, self.before or 1) if compared else (0, 1)
        self.total = self.weight(self.before, self.after)

    def weight(self, before: int, after: int) -> int:
        return before * self.factors[0] + after * self.factors[1]

    def scaled(self, weight: int) -> int:
        return weight if self.total <= _EXACT else weight * _EXACT // self.total

    def drawn(self, max_boxes: int) -> str:
        boxes, left_out = _widest(self.rows, self.factors, max_boxes)
        deepest = max((box.depth for box in boxes), default=0)
        height = _TOP + _BOTTOM + (deepest + 1) * _HEIGHT
        parts = [self.head(height, self.hint(boxes, left_out))]
        for box in boxes:
            row = _TOP + box.depth * _HEIGHT if self.inverted else height - _BOTTOM - (box.depth + 1) * _HEIGHT
            parts.append(self.box(box, row))
        parts.append(f"<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n")
        return "".join(parts)

    def hint(self, boxes: list[_Box], left_out: int) -> str:
        hints = []
        if not boxes:
            hints.append("nothing was seen")
        elif self.compared:
            hints.append("red: more than before; blue: less; white: as before")
        elif self.palette != "samples":
            hints.append("paler: in the kernel")
            if any(box.part for box in boxes):
                hints.append(f"above a {BETWEEN_PARTS}: the stack of who woke what is below, upside down")
        if left_out:
            least = min(self.weight(box.before, box.after) for box in boxes)
            hints.append(f"{left_out:,} boxes of {100 * least / self.total:.2g}% or less are left out")
        return "; ".join(hints)

    def head(self, height: int, hint: str) -> str:
        compared = f' data-before="{self.before}" data-after="{self.after}"' if self.compared else ""
        inverted = ' data-inverted=""' if self.inverted else ""
        return (
            '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" data-total="{self.scaled(self.total) or 1}" data-width="{_INNER}" '
            f'data-margin="{_MARGIN}" data-character="{_CHARACTER}"{compared}{inverted}>\n<style>{STYLE}</style>\n'
            f'<rect id="back" width="{_WIDTH}" height="{height}" fill="#fff"/>\n'
            f'<text id="title" x="{_WIDTH // 2}" y="22">{xml_text(self.title)}</text>\n'
            f'<text id="info" x="{_MARGIN}" y="{height - 7}">{xml_text(hint)}</text>\n'
            f'<text id="matched" x="{_WIDTH - _MARGIN}" y="{height - 7}" text-anchor="end"></text>\n'
            f'<text id="reset" class="button" x="{_MARGIN}" y="22" style="display:none">reset</text>\n'
            f'<text id="search" class="button" x="{_WIDTH - _MARGIN}" y="22" text-anchor="end">search</text>\n'
        )

    def box(self, box: _Box, row: int) -> str:
        left, weight = self.weight(box.left_before, box.left_after), self.weight(box.before, box.after)
        x, width = _MARGIN + left / self.total * _INNER, weight / self.total * _INNER
        start, end = self.scaled(left), self.scaled(left + weight)
        shown = xml_text(cut_name(box.name, _LONGEST))
        if self.compared:
            told, colour = self.change(box)
            counts = f' data-before="{box.before}" data-after="{box.after}"'
        else:
            told = f"{box.after:,} {self.unit}, {100 * box.after / self.after:.2f}%"
            colour, counts = _colour(box, self.palette), ""
        return (
            f'<g class="frame" data-x="{start}" data-w="{end - start}" data-depth="{box.depth}" '
            f'data-name="{shown}"{counts}><title>{shown} ({xml_text(told)})</title>'
            f'<rect x="{x:.2f}" y="{row}" width="{max(width - 0.4, 0.1):.2f}" height="{_HEIGHT - 1}" '
            f'fill="{colour}"/><text x="{x + 3:.2f}" y="{row + 12}">{xml_text(_fitting(box.name, width))}</text></g>\n'
        )

    def change(self, box: _Box) -> tuple[str, str]:
        """The counts and shares of both recordings in words, and the colour of the change."""
        before = box.before / (self.before or 1)
        after = box.after / (self.after or 1)
        told = (
            f"before: {box.before:,} {self.unit}, {100 * before:.2f}%; after: {box.after:,} {self.unit}, "
            f"{100 * after:.2f}%; change: {100 * (after - before):+.2f}%"
        )
        change = (after - before) / (after + before)
        strength = abs(change) ** 0.7  # so that small changes are seen
        return told, f"hsl({_RED if change > 0 else _BLUE},{85 if change else 0}%,{95 - 35 * strength:.0f}%)"


def _widest(rows: _Stacks, factors: tuple[int, int], limit: int) -> tuple[list[_Box], int]:
    """The widest boxes of sorted stacks, and how many others there are. Depth 0 stands for all, and comes last.

    A million stacks have many millions of boxes, most of them narrower than a pixel: no more are kept at a time than
    are drawn. Of boxes of one width the lower is kept: so whatever a box stands on is there.
    """
    kept: list[tuple[int, int, int, _Box]] = []
    of_before, of_after = factors
    before = after = number = least = 0
    names = ["all"]  # of the stack before, with all at the outside
    begun = [(0, 0, 0)]  # where their boxes begin, and in which part
    for stack, more_before, more_after in chain(rows, [((), 0, 0)]):
        shared = 1
        for name, other in zip(stack, names[1:], strict=False):
            if name != other:
                break
            shared += 1
        if not stack and (before or after):
            shared = 0  # the end, which closes all
        while len(names) > shared:
            name, (left_before, left_after, part) = names.pop(), begun.pop()
            weight = (before - left_before) * of_before + (after - left_after) * of_after
            number += 1
            if weight >= least:
                depth = len(names)
                box = _Box(name, depth, before - left_before, after - left_after, left_before, left_after, part)
                if len(kept) < limit:
                    heappush(kept, (weight, -depth, -number, box))
                else:
                    heappushpop(kept, (weight, -depth, -number, box))
                    least = kept[0][0]
        part = begun[-1][2] if begun else 0
        for name in stack[shared - 1 :]:
            part += name == BETWEEN_PARTS
            names.append(name)
            begun.append((before, after, part))
        before += more_before
        after += more_after
    kept.sort(key=lambda item: -item[2])
    return [box for _, _, _, box in kept], number - len(kept)


def _fitting(name: str, width: float) -> str:
    fits = int((width - 6) / _CHARACTER)
    if fits < 3:
        return ""
    return name if len(name) <= fits else name[: fits - 2] + ".."


def _colour(box: _Box, palette: Palette) -> str:
    name = box.name
    if name == BETWEEN_PARTS and palette != "samples":
        return _DIVIDER_COLOUR
    mark = _MARKS.search(name)
    own, others = _PALETTES[palette]
    colours = others[(box.part - 1) % len(others)] if box.part else own
    hue, saturation, lightness, spread = colours[mark.group(1) if mark else ""]
    seed = crc32(name.encode(errors="surrogatepass"))
    hue += seed % (2 * spread + 1) - spread
    return f"hsl({hue % 360},{saturation}%,{lightness + (seed >> 8) % 9 - 4}%)"
