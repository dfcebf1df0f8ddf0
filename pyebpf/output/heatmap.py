"""Heat maps: counts by time and by value as an interactive SVG file that needs nothing else.

A cell's colour is its count, by a legend with numbers; where there is room the number is in it. Beside a map stand its
rows' sums as bars. A click on a column, or the arrow keys, show a column's counts there, and Escape the sums again.
Without scripts it is a picture with tooltips.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.output.area import Area
from pyebpf.output.axes import NANOSECONDS, duration, log_ticks, round_step, size, time_axis
from pyebpf.output.svg import (
    END,
    HEAT,
    PAINTS,
    SERIES,
    STRONG_HEAT,
    Paint,
    document,
    fitting,
    paints,
    status_line,
    text,
    xml_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.output.heat_counts import Grid
    from pyebpf.output.histogram import Bucket

WIDTH, LEFT, HEAD, FOOT, LEGEND_LINE = 900, 84, 56, 30, 24
PLOT_WIDTH, GAP, BARS_WIDTH = 560, 18, 130
ABOVE, BELOW = 26, 56  # of each map, for its title and its axis of time
HEIGHT, LOWEST_ROW, HIGHEST_ROW = 280, 3, 22  # pixels: of a map, if its rows are neither too low nor too high
TICKS_ACROSS, TICK_HEIGHT = 9, 22
MOST_MAPS = 8
#: Where levels begin, the finest first: these numbers times the powers of another.
LEVELS = (((1, 2, 5), 10), ((1, 3), 10), ((1, 5, 20), 100), ((1,), 10), ((1,), 100), ((1,), 10_000))
NUMBER_HEIGHT, DIGIT = 11, 6.4  # pixels that a row has if there are numbers in it, and of a digit

RULES = (
    *PAINTS,
    *paints("heat", HEAT),
    Paint(".on", "fill", "#333", "#ddd"),
    Paint(".onstrong", "fill", "#fff", "#111"),
    Paint(".bar", "fill", *SERIES[0]),
    Paint(".cursor", "stroke", "#000", "#fff"),
    Paint(".late", "fill", "#e2e2e2", "#32363e"),
)
CSS = """\
text{font-family:sans-serif;font-size:12px;pointer-events:none}
.on,.onstrong,.number{font-size:11px}
.title{font-size:16px}
.name{font-weight:bold}
.hit{fill:none;pointer-events:all}
.late{pointer-events:all}
.column{cursor:pointer}
.cell,.bar{shape-rendering:crispEdges}
.cursor{fill:none;stroke-width:2;pointer-events:none;display:none}
g.map{outline-offset:2px}
"""
SCRIPT = """\
"use strict";
const info = document.getElementById("info");
const shown = number => String(number).replace(/\\B(?=(\\d{3})+$)/g, ",");

for (const map of document.documentElement.querySelectorAll("g.map")) {
  const columns = [...map.querySelectorAll("g.column")].map(g => ({
    g, label: g.dataset.label,
    counts: new Map([...g.querySelectorAll("rect.cell")].map(cell => [+cell.dataset.row, +cell.dataset.count])),
  }));
  const bars = [...map.querySelectorAll("g.row")].map(g => ({
    label: g.dataset.label, sum: +g.dataset.count,
    rect: g.querySelector("rect"), title: g.querySelector("title"), text: g.querySelector("text"),
  }));
  const {left, bottom, across, upwards, barsLeft, barsWidth, noun} = map.dataset;
  const cursor = map.querySelector(".cursor"), which = map.querySelector(".which"), most = map.querySelector(".most");
  let column = null, row = 0;

  // The histogram of a column, of all columns for null.
  function choose(chosen) {
    column = chosen;
    const counts = bars.map((bar, number) => column === null ? bar.sum : columns[column].counts.get(number) || 0);
    const highest = Math.max(...counts);
    bars.forEach((bar, number) => {
      const length = counts[number] / (highest || 1) * barsWidth;
      bar.rect.setAttribute("width", length.toFixed(1));
      bar.title.textContent = `${bar.label}: ${shown(counts[number])} ${noun}`;
      if (bar.text) {
        bar.text.setAttribute("x", (+barsLeft + length + 4).toFixed(1));
        bar.text.textContent = counts[number] ? shown(counts[number]) : "";
      }
    });
    which.textContent = column === null ? "all columns" : columns[column].label;
    most.textContent = shown(highest);
    cursor.style.display = column === null ? "none" : "inline";
    if (column === null) info.textContent = "";
  }

  function say(at, number) {
    const {label, counts} = columns[at];
    const sum = [...counts.values()].reduce((a, b) => a + b, 0);
    info.textContent = number === null ? `${label}: ${shown(sum)} ${noun}`
      : `${label}, ${bars[number].label}: ${shown(counts.get(number) || 0)} of ${shown(sum)} ${noun}`;
  }

  function move(at, number) {
    row = Math.min(Math.max(number, 0), bars.length - 1);
    choose(Math.min(Math.max(at, 0), columns.length - 1));
    cursor.setAttribute("x", +left + column * across);
    cursor.setAttribute("y", bottom - (row + 1) * upwards);
    say(column, row);
  }

  const fullest = at => [...columns[at].counts].reduce((a, b) => b[1] > a[1] ? b : a, [row, 0])[0];
  columns.forEach((each, number) => {
    each.g.addEventListener("click", event => {
      const cell = event.target.dataset.row;
      if (column === number && (cell === undefined || +cell === row)) choose(null);
      else move(number, cell === undefined ? fullest(number) : +cell);
    });
    each.g.addEventListener("mouseover", event => {
      const cell = event.target.dataset.row;
      say(number, cell === undefined ? null : +cell);
    });
    each.g.addEventListener("mouseout", () => {
      if (column === null) info.textContent = "";
      else say(column, row);
    });
  });
  map.addEventListener("keydown", event => {
    const steps = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key];
    if (event.key === "Escape") choose(null);
    else if (event.key === "Home") move(0, row);
    else if (event.key === "End") move(columns.length - 1, row);
    else if (steps && column === null) move(event.key === "ArrowLeft" ? columns.length - 1 : 0,
      fullest(event.key === "ArrowLeft" ? columns.length - 1 : 0));
    else if (steps) move(column + steps[0], row + steps[1]);
    else return;
    event.preventDefault();
  });
}
"""


def heat_map(grids: Sequence[Grid], *, title: str, began: str = "", noun: str = "values") -> str:
    """An SVG document of heat maps, one below the other, at most MOST_MAPS of them.

    `began` is the time of day at which the first column begins, `noun` what the counts are of.
    """
    drawn = grids[:MOST_MAPS]
    levels = _levels(max((count for grid in drawn for column in grid.columns for count in column.values()), default=0))
    width = f", columns of {duration(drawn[0].width)}" if drawn else ""
    late = len(drawn[0].late) if drawn else 0
    grey = f"; grey: read too late, counted in the next column ({late:,})" if late else ""
    words = f"{sum(grid.total for grid in grids):,} {noun}{width}{began and f', from {began}'}{grey}"
    parts = [
        text(LEFT, 22, fitting(title, WIDTH - LEFT - 20, 16), kind="text title"),
        text(LEFT, 42, words, kind="weak"),
    ]
    top: float = HEAD
    for grid in drawn:
        drawing = _Map(grid, top + ABOVE, levels, noun)
        parts += drawing.parts()
        top = drawing.area.bottom + BELOW
    if not drawn:
        parts.append(text(LEFT, top + 12, "nothing was seen"))
        top += 24
    if len(grids) > len(drawn):
        rest = grids[MOST_MAPS:]
        more = f"not drawn: {len(rest)} more with {sum(grid.total for grid in rest):,} {noun}"
        parts.append(text(LEFT, top + 4, more, kind="weak"))
        top += 20
    if levels:
        legend, top = _legend(levels, top + 8, noun)
        parts += legend
    height = math.ceil(top + FOOT)
    parts.append(status_line(LEFT, height - 10))
    return document(WIDTH, height, parts, label=f"{title}: {words}", rules=RULES, css=CSS, script=SCRIPT)


@dataclass(frozen=True)
class _Level:
    """Counts from `low` to `high`, and their colour."""

    low: int
    high: int
    colour: int


def _levels(most: int) -> list[_Level]:
    """At most as many as there are colours, equally wide on a logarithmic scale or nearly so, from 1 to the highest."""
    if most < 1:
        return []
    lows: list[int] = list(range(1, min(most, len(HEAT) + 1) + 1))
    for factors, every in LEVELS:
        if len(lows) > len(HEAT):
            lows = [f * every**n for n in range(64) for f in factors if f * every**n <= most]
    last = len(lows) - 1
    colours = [round(i * (len(HEAT) - 1) / last) if last else len(HEAT) // 2 for i in range(len(lows))]
    return [_Level(low, high - 1, c) for low, high, c in zip(lows, [*lows[1:], most + 1], colours, strict=True)]


def _legend(levels: Sequence[_Level], top: float, noun: str) -> tuple[list[str], float]:
    """The colours with their counts, in as many lines as they need, and where they end."""
    words = f"{noun} a cell:"
    begin = LEFT + len(words) * DIGIT + 12
    parts, x = [text(LEFT, top + 13, words)], begin
    for level in levels:
        label = f"{level.low:,}" if level.low == level.high else f"{level.low:,} to {level.high:,}"
        width = 21 + len(label) * DIGIT + 12
        if x + width > WIDTH:
            x, top = begin, top + LEGEND_LINE
        parts.append(
            f'<rect class="heat{level.colour} frame" x="{x:g}" y="{top:g}" width="16" height="16" stroke-width=".5"/>'
            f"{text(round(x + 21, 1), top + 13, label)}"
        )
        x += width
    return parts, top + LEGEND_LINE


def row_label(row: Bucket, unit: str) -> str:
    """The range of a row in words."""
    if row.low is None:
        return f"below {0 if row.high is None else row.high + 1:,} {unit}"
    if row.high is None:
        return f"{row.low:,} {unit} and more"
    return f"{row.low:,} {unit}" if row.low == row.high else f"{row.low:,} to {row.high:,} {unit}"


class _Map:
    """The drawing of one grid."""

    def __init__(self, grid: Grid, top: float, levels: Sequence[_Level], noun: str) -> None:
        self.grid, self.levels, self.noun = grid, levels, noun
        self.row = min(max(HEIGHT // len(grid.rows), LOWEST_ROW), HIGHEST_ROW)
        self.column = PLOT_WIDTH / len(grid.columns)
        self.area = Area(LEFT, top, PLOT_WIDTH, self.row * len(grid.rows))
        self.bars = Area(self.area.right + GAP, top, BARS_WIDTH, self.area.height)
        self.labels = [row_label(row, grid.unit) for row in grid.rows]

    def parts(self) -> list[str]:
        """The map, and its rows' sums beside it."""
        grid, area = self.grid, self.area
        seconds = time_axis(0, grid.width * len(grid.columns) / 1e9, TICKS_ACROSS)
        across = [(area.left + time / seconds.span * area.width, label) for time, label in seconds.ticks()]
        name = fitting(grid.title, 500) or "all"
        data = {
            "left": f"{area.left:g}",
            "bottom": f"{area.bottom:g}",
            "across": f"{self.column:.4f}",
            "upwards": self.row,
            "bars-left": f"{self.bars.left:g}",
            "bars-width": f"{self.bars.width:g}",
            "noun": self.noun,
        }
        attributes = "".join(f' data-{key}="{value}"' for key, value in data.items())
        counted = f"{grid.total:,} {self.noun}"
        label = f"heat map, {name}, {counted}: arrow keys choose a cell, Escape none"
        title = [text(area.left, area.top - 9, f"{name}: {counted}", kind="text name")] if grid.title else []
        unit = grid.values or ("duration" if grid.unit in NANOSECONDS else grid.unit)
        return [
            f'<g class="map" tabindex="0" role="application" aria-label="{xml_text(label)}"{attributes}>',
            *title,
            *area.axes(across, self._ticks(), f"time since the beginning ({seconds.unit})", unit),
            *(self._column(number) for number in range(len(grid.columns))),
            f'<rect class="cursor" width="{self.column:.2f}" height="{self.row:g}"/>',
            *self._bars(),
            "</g>",
        ]

    def _column(self, number: int) -> str:
        grid, area = self.grid, self.area
        left, step = area.left + number * self.column, grid.width / 1e9
        label = f"{_seconds(number * step)} to {_seconds((number + 1) * step)} s"
        counts = grid.columns[number]
        total = sum(counts.values())
        kind = "hit"
        if number in grid.late:
            label, kind = f"{label} (read too late)", "late"
        place = f'x="{left:.2f}" y="{area.top:g}" width="{self.column:.2f}" height="{area.height:g}"'
        parts = [
            f'<g class="column" data-label="{label}" role="img" aria-label="{label}: {total:,} {self.noun}">',
            f'<rect class="{kind}" {place}/>',
        ]
        for row, count in sorted(counts.items()):
            colour = next(level.colour for level in reversed(self.levels) if count >= level.low)
            y = area.bottom - (row + 1) * self.row
            parts.append(
                f'<rect class="cell heat{colour}" data-row="{row}" data-count="{count}" x="{left:.2f}" y="{y:g}" '
                f'width="{self.column:.2f}" height="{self.row:g}">'
                f"<title>{label}, {xml_text(self.labels[row])}: {count:,} {self.noun}</title></rect>"
            )
            shown = f"{count:,}"
            if self.row >= NUMBER_HEIGHT and len(shown) * DIGIT + 4 <= self.column:
                kind = "onstrong" if colour >= STRONG_HEAT else "on"
                middle, base = left + self.column / 2, y + self.row / 2 + 4
                parts.append(text(round(middle, 1), base, shown, 'text-anchor="middle"', kind=kind))
        return "".join([*parts, "</g>"])

    def _bars(self) -> list[str]:
        bars, rows = self.bars, self.grid.rows
        most = max(row.count for row in rows)
        parts = [
            f'<path class="frame" d="M{bars.left:g} {bars.top:g}V{bars.bottom:g}h{bars.width:g}" fill="none"/>',
            text(bars.left, bars.top - 9, "all columns", kind="weak which"),
            text(bars.left, bars.bottom + 20, "0", kind="weak"),
            text(bars.right, bars.bottom + 20, f"{most:,}", END, kind="weak most"),
            text(bars.right, bars.bottom + 36, self.noun, END, kind="weak"),
        ]
        for number, row in enumerate(rows):
            label, length = xml_text(self.labels[number]), row.count / most * bars.width
            y = bars.bottom - (number + 1) * self.row
            base = y + self.row / 2 + 4
            shown = f"{row.count:,}" if row.count else ""
            beside = text(round(bars.left + length + 4, 1), base, shown, kind="weak number")
            parts.append(
                f'<g class="row" data-label="{label}" data-count="{row.count}">'
                f'<rect class="bar" x="{bars.left:g}" y="{y:g}" width="{length:.1f}" height="{self.row - 1:g}">'
                f"<title>{label}: {row.count:,} {self.noun}</title></rect>"
                f"{beside if self.row >= NUMBER_HEIGHT else ''}</g>"
            )
        return parts

    def _ticks(self) -> list[tuple[float, str]]:
        """Ticks of the values."""
        grid = self.grid
        bounds = [bound for row in grid.rows for bound in (row.low, row.high) if bound is not None]
        low, high = min(bounds, default=0), max(bounds, default=0) + 1
        room = max(int(self.area.height / TICK_HEIGHT), 2)
        if grid.scale == "log":
            ticks = log_ticks(max(low, 1), high, grid.unit, room)
        elif all(row.low == row.high for row in grid.rows if None not in (row.low, row.high)):
            return self._whole_numbers(room)
        else:
            nanoseconds = NANOSECONDS.get(grid.unit)
            step = round_step((high - low) * (nanoseconds or 1), room + 1) / (nanoseconds or 1)
            values = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
            ticks = [(value, _value(value, grid.unit, nanoseconds)) for value in values]
        return [(self._position(value), label) for value, label in ticks]

    def _whole_numbers(self, room: int) -> list[tuple[float, str]]:
        """Ticks in the middle of rows that have one number each."""
        rows = self.grid.rows
        every = max(int(round_step(len(rows), room)), 1) if len(rows) > room else 1
        nanoseconds = NANOSECONDS.get(self.grid.unit)
        return [
            (self.area.bottom - (number + 0.5) * self.row, _value(row.low, self.grid.unit, nanoseconds))
            for number, row in enumerate(rows)
            if row.low is not None and row.low == row.high and row.low % every == 0
        ]

    def _position(self, value: float) -> float:
        """Where a value is on the scale, in pixels."""
        for number, row in enumerate(self.grid.rows):
            low, high = row.low, row.high
            if low is None or (high is not None and value > high + 1):
                continue
            above = low * 2 if high is None else high + 1
            if value <= low:
                share = 0.0
            elif self.grid.scale == "log":
                share = math.log(value / max(low, 0.5)) / math.log(above / max(low, 0.5))
            else:
                share = (value - low) / (above - low)
            return self.area.bottom - (number + min(share, 1.0)) * self.row
        return self.area.top


def _value(value: float, unit: str, nanoseconds: int | None) -> str:
    if nanoseconds is not None:
        return duration(value * nanoseconds) if value else "0"
    return size(value) if unit == "bytes" else f"{value:,.0f}"


def _seconds(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")
