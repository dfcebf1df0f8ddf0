"""Sub-second offset heat maps: samples by second and by offset within the second.

The SVG file is the heat map. The HTML file has the stacks, too: a range of time that is chosen in the map is drawn
below it as a flame graph. Both need nothing else, and no network.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from pyebpf.output.escape import escaped
from pyebpf.output.heat_counts import Grid
from pyebpf.output.heatmap import heat_map
from pyebpf.output.histogram import Bucket
from pyebpf.output.stacks import SLOT, first_slot, names
from pyebpf.output.subsecond_page import BODY, SCRIPT, STYLE
from pyebpf.output.svg import HEAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyebpf.output.stacks import Stack

SECOND = 10**9
ROWS = SECOND // SLOT
#: Seconds, slots of stacks and different stacks that a picture has at most.
MOST_COLUMNS, MOST_TIMES, MOST_STACKS = 300, 1_000_000, 50_000


def subsecond_heat_map(stacks: Iterable[Stack], start: int, *, title: str, began: str = "") -> str:
    """An SVG document: a column for each second since the start, in nanoseconds since 1970, 50 rows of 20 ms.

    A column stands for several seconds if there are more than MOST_COLUMNS.
    """
    counts = _counts(stacks, start)
    seconds = max((slot // ROWS for slot in counts), default=-1) + 1
    factor = max(-(-seconds // MOST_COLUMNS), 1)
    columns: list[dict[int, int]] = [{} for _ in range(-(-seconds // factor))]
    rows = [0] * ROWS
    for slot, count in counts.items():
        second, row = divmod(slot, ROWS)
        column = columns[second // factor]
        column[row] = column.get(row, 0) + count
        rows[row] += count
    height = SLOT // 1_000_000
    buckets = tuple(Bucket(row * height, (row + 1) * height - 1, count) for row, count in enumerate(rows))
    grid = Grid("", "msecs", "linear", buckets, factor * SECOND, tuple(columns), "offset in the second")
    return heat_map([grid] if counts else [], title=title, began=began, noun="samples")


def subsecond_page(
    stacks: Iterable[Stack], start: int, *, title: str, began: str = "", command: str = "", delimited: bool = False
) -> str:
    """An HTML document: the heat map, and a flame graph of the range that is chosen in it.

    `command` is the command line that draws the recording; the page adds the range to it. Of many stacks it has those
    with the most samples; the map has all.
    """
    ordered = sorted((stack for stack in stacks if stack.times), key=lambda stack: -stack.count)
    known: dict[str, int] = {}
    kept, times, room = [], [], MOST_TIMES
    for stack in ordered[:MOST_STACKS]:
        room -= len(stack.times)
        if room < 0:
            break
        kept.append(
            [known.setdefault(escaped(name), len(known)) for name in names(stack, delimited=delimited, annotated=True)]
        )
        times.append(_numbers({(time - first_slot(start)) // SLOT: count for time, count in stack.times}))
    data = {
        "title": title,
        "names": [*known],
        "stacks": kept,
        "times": times,
        "slots": _numbers(_counts(ordered, start)),
        "rows": ROWS,
        "left": len(ordered) - len(kept),
        "command": command,
        "heat": HEAT,
    }
    total = sum(count for stack in ordered for _, count in stack.times)
    words = f"{total:,} samples{began and f', from {began}'}"
    # Within a script nothing may look like its end.
    embedded = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n<p>{escape(words)}</p>\n{BODY}"
        f"<script>\nconst data = {embedded};\n{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _counts(stacks: Iterable[Stack], start: int) -> dict[int, int]:
    """Samples by the number of their slot since the start."""
    found: dict[int, int] = {}
    first = first_slot(start)
    for stack in stacks:
        for time, count in stack.times:
            # The first may have been taken just before the recording says that it began.
            slot = max((time - first) // SLOT, 0)
            found[slot] = found.get(slot, 0) + count
    return found


def _numbers(counts: Mapping[int, int]) -> Sequence[int]:
    """Slots, each less that before, and each with its count."""
    found, before = [], 0
    for slot, count in sorted(counts.items()):
        found += [max(slot, 0) - before, count]
        before = max(slot, 0)
    return found
