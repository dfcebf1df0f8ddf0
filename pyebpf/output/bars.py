"""Histograms side by side: one for each label, with common axes, as an interactive SVG file that needs nothing else.

The pointer on a bar, or the arrow keys, show its range and its count below the picture, and mark the bars of that range
in all histograms. Without scripts it is a picture with tooltips.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyebpf.output.area import Area
from pyebpf.output.axes import NANOSECONDS, duration, size, value_axis
from pyebpf.output.heat_counts import BOTTOM, row_of
from pyebpf.output.heatmap import row_label
from pyebpf.output.histogram import Bucket
from pyebpf.output.svg import END, MIDDLE, PAINTS, SERIES, Paint, document, fitting, paints, status_line, text, xml_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyebpf.output.heat_counts import Grid

WIDTH, LEFT, RIGHT, HEAD, FOOT = 900, 24, 16, 56, 30
ACROSS, GAP = 3, 16  # histograms in a row, and pixels between them
TICKS_WIDTH, ABOVE, HEIGHT, BELOW = 50, 27, 120, 44  # of each: for its numbers, its title, its bars, its axis
TICKS_UP, TICK_WIDTH = 4, 52
MOST = 24
_MOST_BETWEEN = 100

RULES = (
    *PAINTS,
    *paints("bar", SERIES[:1]),
    Paint(".at .bar", "fill", SERIES[1][0], SERIES[1][1]),
    Paint(".at .hit", "fill", "#eee", "#2a2d34"),
)
CSS = """\
text{font-family:sans-serif;font-size:12px;pointer-events:none}
.title{font-size:16px}
.name{font-weight:bold}
.tick{font-size:11px}
.hit{fill:none;pointer-events:all}
.bar{shape-rendering:crispEdges}
g.bars{outline-offset:2px}
"""
SCRIPT = """\
"use strict";
const info = document.getElementById("info");
const shown = number => String(number).replace(/\\B(?=(\\d{3})+$)/g, ",");
const panels = [...document.documentElement.querySelectorAll("g.bars")].map(g => ({
  g, name: g.dataset.name, sum: +g.dataset.total, noun: g.dataset.noun, group: g.dataset.group,
  bars: [...g.querySelectorAll("g.bucket")],
}));
const across = +document.documentElement.dataset.across;
let chosen = null;

// A bar's range is marked in all histograms that have the same axis.
function mark(panel, number) {
  for (const other of panels) other.bars.forEach((bar, at) =>
    bar.classList.toggle("at", number !== null && other.group === panel.group && at === number));
  if (number === null) info.textContent = "";
  else {
    const {label, count} = panel.bars[number].dataset, share = (100 * count / panel.sum).toFixed(1);
    info.textContent = `${panel.name}${label}: ${shown(count)} of ${shown(panel.sum)} ${panel.noun}, ${share}%`;
  }
}

function choose(panel, number) {
  chosen = number === null ? null : [panel, Math.min(Math.max(number, 0), panel.bars.length - 1)];
  mark(panel, chosen && chosen[1]);
}

panels.forEach((panel, place) => {
  panel.bars.forEach((bar, number) => {
    bar.addEventListener("mouseover", () => mark(panel, number));
    bar.addEventListener("mouseout", () => chosen ? mark(...chosen) : mark(panel, null));
    bar.addEventListener("click", () => choose(panel, number));
  });
  panel.g.addEventListener("keydown", event => {
    const steps = {ArrowLeft: -1, ArrowRight: 1}[event.key], rows = {ArrowUp: -across, ArrowDown: across}[event.key];
    const own = chosen && chosen[0] === panel ? chosen[1] : null, other = panels[place + rows];
    if (event.key === "Escape") choose(panel, null);
    else if (event.key === "Home") choose(panel, 0);
    else if (event.key === "End") choose(panel, panel.bars.length - 1);
    else if (steps) choose(panel, own === null ? (steps > 0 ? 0 : panel.bars.length - 1) : own + steps);
    else if (other) { other.g.focus(); choose(other, own === null ? 0 : own); }
    else if (!rows) return;
    event.preventDefault();
  });
});
"""


def bar_charts(grids: Sequence[Grid], *, title: str, began: str = "", noun: str = "values") -> str:
    """An SVG document of the grids' rows as bars, at most MOST grids, those with the most values.

    Those of one unit have one axis of ranges and one of counts. `began` is the time of day at which counting began,
    `noun` what the counts are of.
    """
    drawn = grids[:MOST]
    words = f"{sum(grid.total for grid in grids):,} {noun}{began and f', from {began}'}"
    parts = [
        text(LEFT, 22, fitting(title, WIDTH - LEFT - RIGHT, 16), kind="text title"),
        text(LEFT, 42, words, kind="weak"),
    ]
    axes = [*_axes(drawn)]
    width = (WIDTH - LEFT - RIGHT - GAP * (ACROSS - 1)) / ACROSS
    for place, grid in enumerate(drawn):
        row, column = divmod(place, ACROSS)
        left, top = LEFT + column * (width + GAP), HEAD + row * (ABOVE + HEIGHT + BELOW) + ABOVE
        axis = next(axis for axis in axes if grid in axis.grids)
        area = Area(left + TICKS_WIDTH, top, width - TICKS_WIDTH, HEIGHT)
        parts += axis.drawn(grid, area, noun, axes.index(axis))
    bottom: float = HEAD + -(-len(drawn) // ACROSS) * (ABOVE + HEIGHT + BELOW)
    if not drawn:
        parts.append(text(LEFT, bottom + 12, "nothing was seen"))
        bottom += 24
    if len(grids) > len(drawn):
        rest = grids[MOST:]
        more = f"not drawn: {len(rest)} more with {sum(grid.total for grid in rest):,} {noun}"
        parts.append(text(LEFT, bottom + 4, more, kind="weak"))
        bottom += 20
    height = math.ceil(bottom + FOOT)
    parts.append(status_line(LEFT, height - 10))
    label = f"{title}: {words}"
    attributes = {"data-across": ACROSS}
    return document(WIDTH, height, parts, label=label, rules=RULES, css=CSS, script=SCRIPT, attributes=attributes)


class _Axes:
    """The ranges and the scale of histograms that are compared: of one unit, with the same bounds."""

    def __init__(self, grid: Grid) -> None:
        self.unit, self.scale = grid.unit, grid.scale
        self.grids: list[Grid] = []
        self._rows: dict[int, Bucket] = {}
        self.add(grid)

    def add(self, grid: Grid) -> None:
        self.grids.append(grid)
        for row in grid.rows:
            self._rows.setdefault(row_of(row), row)

    def fits(self, grid: Grid) -> bool:
        """Whether a histogram has the same unit, and no range that overlaps another of these."""
        if (grid.unit, grid.scale) != (self.unit, self.scale):
            return False
        both = sorted({**self._rows, **{row_of(row): row for row in grid.rows}}.items())
        same = all(self._rows.get(row_of(row), row).high == row.high for row in grid.rows)
        ends = [BOTTOM if row.high is None else row.high for _, row in both[:-1]]
        return same and all(low > end for (low, _), end in zip(both[1:], ends, strict=True))

    def rows(self) -> list[Bucket]:
        """The ranges of all, in rising order and without gaps, with no counts."""
        found: list[Bucket] = []
        for low, row in sorted(self._rows.items()):
            last = found[-1].high if found else None
            if last is not None and low > last + 1:
                found += _between(last + 1, low - 1, found[-1])
            found.append(Bucket(row.low, row.high, 0))
        return found

    def drawn(self, grid: Grid, area: Area, noun: str, group: int) -> Iterator[str]:
        """A histogram with its axes."""
        rows = self.rows()
        counts = {row_of(row): row.count for row in grid.rows}
        upwards = value_axis(max(row.count for each in self.grids for row in each.rows), "", TICKS_UP)
        step = area.width / len(rows)
        name = f"{grid.title}, " if grid.title else ""
        label = f"histogram, {name}{grid.total:,} {noun}: arrow keys choose a bar, Escape none"
        yield (
            f'<g class="bars" tabindex="0" role="application" aria-label="{xml_text(label)}" '
            f'data-name="{xml_text(name)}" data-total="{grid.total}" data-noun="{noun}" data-group="{group}">'
        )
        counted = f"{grid.total:,}"
        room = area.width + TICKS_WIDTH - 7 * len(counted) - 8
        yield text(area.left - TICKS_WIDTH, area.top - 11, fitting(grid.title or "all", room), kind="text name")
        yield text(area.right, area.top - 11, counted, END, kind="weak")
        for value, words in upwards.ticks():
            y = area.bottom - value / upwards.span * area.height
            yield f'<line class="grid" x1="{area.left:g}" x2="{area.right:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield text(area.left - 5, round(y + 4, 1), words, END, kind="weak tick")
        for number, row in enumerate(rows):
            count, left = counts.get(row_of(row), 0), area.left + number * step
            height = count / upwards.span * area.height
            if count:
                height = max(height, 1.0)  # one of a million is seen, too
            told = xml_text(row_label(row, self.unit))
            yield (
                f'<g class="bucket" data-label="{told}" data-count="{count}">'
                f'<rect class="hit" x="{left:.2f}" y="{area.top:g}" width="{step:.2f}" height="{area.height:g}"/>'
                f'<rect class="bar bar0" x="{left:.2f}" y="{area.bottom - height:.1f}" '
                f'width="{max(step - (1 if step > 3 else 0), 0.5):.2f}" height="{height:.1f}"/>'
                f"<title>{xml_text(name)}{told}: {count:,} of {grid.total:,} {noun}</title></g>"
            )
        yield f'<path class="frame" d="M{area.left:g} {area.bottom:g}h{area.width:g}" fill="none"/>'
        every = max(math.ceil(TICK_WIDTH / step), 1)
        for number in range(0, len(rows), every):
            x = area.left + number * step
            yield f'<path class="frame" d="M{x:.1f} {area.bottom:g}v4" fill="none"/>'
            if x <= area.right - TICK_WIDTH / 2 + GAP:
                yield text(round(x, 1), area.bottom + 16, self._tick(rows[number]), MIDDLE, kind="weak tick")
        if self.unit not in NANOSECONDS:
            yield text(area.right, area.bottom + 30, fitting(self.unit, area.width), END, kind="weak tick")
        yield "</g>"

    def _tick(self, row: Bucket) -> str:
        """The lower bound, in the unit that suits it."""
        if row.low is None:
            return "<"
        if self.unit in NANOSECONDS:
            return duration(row.low * NANOSECONDS[self.unit]) if row.low else "0"
        return size(row.low) if self.unit == "bytes" else f"{row.low:,}"


def _axes(grids: Iterable[Grid]) -> list[_Axes]:
    """Histograms that are compared have common axes; those of another unit, or with other bounds, their own."""
    found: list[_Axes] = []
    for grid in grids:
        axes = next((each for each in found if each.fits(grid)), None)
        if axes is None:
            found.append(_Axes(grid))
        else:
            axes.add(grid)
    return found


def _between(low: int, high: int, before: Bucket) -> Iterator[Bucket]:
    """Ranges that no histogram has: powers of two, or as wide as the one before; as one, if there are too many."""
    step = 0 if before.low is None else low - before.low
    if low & (low - 1) == 0 and (high + 1) & high == 0 and low > 0:
        while low <= high:
            yield Bucket(low, 2 * low - 1, 0)
            low *= 2
    elif step and (high + 1 - low) % step == 0 and (high + 1 - low) // step <= _MOST_BETWEEN:
        yield from (Bucket(at, at + step - 1, 0) for at in range(low, high + 1, step))
    else:
        yield Bucket(low, high, 0)
