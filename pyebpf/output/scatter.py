"""Scatter plots: a mark for each event at its time and its duration, as an interactive SVG that needs nothing else.

Classes of events have marks of different colours and shapes. Of more than MOST_POINTS events those are drawn that show
how the rest lie: the shortest and the longest of each pixel's time and class, and as many of those between as there is
room for. The pointer and the arrow keys go from mark to mark and tell what each is.
"""

from __future__ import annotations

import json
import math
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pyebpf.output.area import Area
from pyebpf.output.axes import duration, log_ticks, round_step, time_axis
from pyebpf.output.svg import PAINTS, SERIES, Paint, document, fitting, paints, status_line, text, xml_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyebpf.output.heat_counts import Scale

MOST_POINTS = 20_000
WIDTH, LEFT, HEAD, HEIGHT, FOOT = 900, 84, 56, 400, 74
PLOT_WIDTH = 796
TICKS_ACROSS, TICK_HEIGHT, LEGEND_HEIGHT = 11, 26, 18
#: The class of what has none, and of those beyond the marks.
EVENTS, OTHERS = "events", "others"
#: A path of each mark, around the point that it begins at: a dot, a cross, a triangle, a square, a plus, a bar.
MARKS = (
    "m-2,0a2,2 0 1 0 4,0a2,2 0 1 0 -4,0",
    "m-2.5,-2.5l5,5m-5,0l5,-5",
    "m0,-3l3,5h-6z",
    "m-2,-2h4v4h-4z",
    "m-3,0h6m-3,-3v6",
    "m-3,0h6",
)
RULES = (*PAINTS, *paints("mark", SERIES, "stroke"), Paint(".cursor", "stroke", "#000", "#fff"))
CSS = """\
text{font-family:sans-serif;font-size:12px;pointer-events:none}
.title{font-size:16px}
path.points{fill:none;stroke-width:1.2;stroke-opacity:.75}
path.key{fill:none;stroke-width:1.5}
.hit{fill:none;pointer-events:all}
.cursor{fill:none;stroke-width:2;pointer-events:none;display:none}
g.plot{outline-offset:2px}
"""
# Points are [x, y, nanoseconds since the beginning, nanoseconds, class], by time.
SCRIPT = """\
"use strict";
const plot = document.querySelector("g.plot"), info = document.getElementById("info");
const cursor = plot.querySelector(".cursor"), hit = plot.querySelector(".hit");
const {points, classes} = JSON.parse(document.querySelector("metadata").textContent);
let at = null;

function time(nanoseconds) {
  const [unit, scale] = [["s", 1e9], ["ms", 1e6], ["us", 1e3]].find(each => nanoseconds >= each[1]) || ["ns", 1];
  return `${+(nanoseconds / scale).toFixed(3)} ${unit}`;
}

function choose(chosen) {
  at = chosen;
  cursor.style.display = at === null ? "none" : "inline";
  if (at === null) { info.textContent = ""; return; }
  const [x, y, when, long, kind] = points[at];
  cursor.setAttribute("cx", x);
  cursor.setAttribute("cy", y);
  info.textContent = `${classes[kind]}, ${time(long)}, at ${(when / 1e9).toFixed(6)} s`;
}

// The next one, by time, for which a test holds.
function find(step, test) {
  for (let next = at + step; next >= 0 && next < points.length; next += step) if (test(points[next])) return next;
  return at;
}

const distance = (point, x, y) => (point[0] - x) ** 2 + (point[1] - y) ** 2;
hit.addEventListener("mousemove", event => {
  const onScreen = document.documentElement.getScreenCTM();
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(onScreen.inverse());
  let nearest = null, least = 400;
  points.forEach((point, number) => {
    const far = distance(point, place.x, place.y);
    if (far < least) [nearest, least] = [number, far];
  });
  choose(nearest);
});
hit.addEventListener("mouseout", () => choose(null));
plot.addEventListener("keydown", event => {
  if (!points.length) return;
  const key = event.key, arrow = key.startsWith("Arrow");
  if (key === "Escape") choose(null);
  else if (key === "Home" || (arrow && at === null)) choose(0);
  else if (key === "End") choose(points.length - 1);
  else if (key === "ArrowRight") choose(find(1, () => true));
  else if (key === "ArrowLeft") choose(find(-1, () => true));
  else if (key === "ArrowUp") choose(find(1, point => point[3] > points[at][3]));
  else if (key === "ArrowDown") choose(find(1, point => point[3] < points[at][3]));
  else return;
  event.preventDefault();
});
"""

Point = tuple[int, int, int]  # time, duration, class


class _Class:
    """Numbers of a class of events: how many, the shortest and the longest."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = self.least = self.most = 0

    def words(self) -> str:
        if not self.count:
            return f"{self.name}: none"
        return f"{self.name}: {self.count:,}, {duration(self.least)} to {duration(self.most)}"


class Points:
    """Events for a scatter plot, in constant memory. The classes that are named beforehand have the first marks."""

    def __init__(self, classes: Sequence[str] = ()) -> None:
        self.classes = [_Class(name) for name in classes[: len(MARKS) - 1]]
        self._numbers = {each.name: number for number, each in enumerate(self.classes)}
        self.total = 0
        self._points: list[Point] = []

    def add(self, time: int, nanoseconds: int, name: str = EVENTS) -> None:
        """Add an event of a class, that was there at a time of any clock and took so many nanoseconds, from 0 on."""
        nanoseconds = max(nanoseconds, 0)
        number = self._numbers.get(name)
        if number is None:
            number = self._new(name)
        found = self.classes[number]
        if not found.count or nanoseconds < found.least:
            found.least = nanoseconds
        if nanoseconds > found.most:
            found.most = nanoseconds
        found.count += 1
        self.total += 1
        self._points.append((time, nanoseconds, number))
        if len(self._points) >= 4 * MOST_POINTS:
            self._points = thinned(self._points)

    def _new(self, name: str) -> int:
        """The number of a class that comes up; the last is for all that have no mark of their own."""
        if len(self.classes) >= len(MARKS) - 1:
            name = OTHERS
        if name not in self._numbers:
            self._numbers[name] = len(self.classes)
            self.classes.append(_Class(name))
        return self._numbers[name]

    def points(self) -> list[Point]:
        """Those to draw, by time."""
        return sorted(self._points if len(self._points) <= MOST_POINTS else thinned(self._points))


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most MOST_POINTS of the points: of each two pixels of time and class the extremes, and even ranks between."""
    first = min(point[0] for point in points)
    span = max(max(point[0] for point in points) - first, 1)
    pixels = PLOT_WIDTH // 2
    placed = sorted(((time - first) * pixels // span, kind, long, time) for time, long, kind in points)
    groups = [[(time, long, kind) for _, kind, long, time in group] for _, group in groupby(placed, itemgetter(0, 1))]
    low, high = 2, MOST_POINTS
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(len(group), middle) for group in groups) <= MOST_POINTS:
            low = middle
        else:
            high = middle - 1
    return [point for group in groups for point in _even(group, low)]


def _even(group: Sequence[Point], most: int) -> Iterable[Point]:
    """The first, the last and those at even distances between."""
    if len(group) <= most:
        return group
    return [group[number * (len(group) - 1) // (most - 1)] for number in range(most)]


def scatter_plot(points: Points, *, title: str, scale: Scale, began: str = "", values: str = "duration") -> str:
    """An SVG document of the events.

    `began` is the time of day of the first, `values` says what is drawn upwards, on a logarithmic or a linear scale.
    """
    drawn = points.points()
    classes = [each for each in points.classes if each.count]
    words = f"{points.total:,} events{(began and drawn and f', from {began}') or ''}"
    if len(drawn) < points.total:
        hidden = points.total - len(drawn)
        words += f"; {hidden:,} not drawn, which lie between the shortest and the longest that are"
    area = Area(LEFT, HEAD + 12, PLOT_WIDTH, HEIGHT)
    heading = text(LEFT, 22, fitting(title, WIDTH - LEFT - 20, 16), kind="text title")
    parts = [heading, text(LEFT, 42, words, kind="weak")]
    placed: list[tuple[float, float, int, int, int]] = []
    top = area.bottom + 60
    if drawn:
        first, last = drawn[0][0], drawn[-1][0]
        seconds = time_axis(0, (last - first) / 1e9, TICKS_ACROSS)
        upwards = _Upwards(area, [point[1] for point in drawn], scale)

        def x(time: float) -> float:
            return round(area.left + time / seconds.span * area.width, 1)

        placed = [
            (x((time - first) / 1e9), upwards.position(long), time - first, long, kind) for time, long, kind in drawn
        ]
        across = [(x(at), label) for at, label in seconds.ticks()]
        names = ", ".join(each.words() for each in classes)
        label = f"scatter plot; {names}; arrow keys go from event to event"
        parts += [
            f'<g class="plot" tabindex="0" role="application" aria-label="{xml_text(label)}">',
            *area.axes(across, upwards.ticks(), f"time since the first event ({seconds.unit})", values),
            *_marks(placed, points.classes),
            f'<rect class="hit" {area.attributes}/>',
            '<circle class="cursor" r="6"/>',
            "</g>",
        ]
        for number, each in enumerate(points.classes):
            if each.count:
                parts.append(f'<path class="key mark{number}" d="M{LEFT + 5},{top - 4}{MARKS[number]}"/>')
                parts.append(text(LEFT + 16, top, each.words()))
                top += LEGEND_HEIGHT
    else:
        parts += [f'<g class="plot"><rect class="hit" {area.attributes}/><circle class="cursor" r="6"/></g>']
        parts.append(text(LEFT, area.top + 20, "nothing was seen"))
    height = math.ceil(top + FOOT - LEGEND_HEIGHT - 30)
    parts.append(status_line(LEFT, height - 10))
    data = {"points": placed, "classes": [each.name for each in points.classes]}
    parts.append(f"<metadata>{xml_text(json.dumps(data, separators=(',', ':')))}</metadata>")
    return document(WIDTH, height, parts, label=f"{title}: {words}", rules=RULES, css=CSS, script=SCRIPT)


def _marks(placed: Sequence[tuple[float, float, int, int, int]], classes: Sequence[_Class]) -> list[str]:
    """A path for each class."""
    paths = []
    for number, each in enumerate(classes):
        marks = [f"M{x:g},{y:g}{MARKS[number]}" for x, y, _, _, kind in placed if kind == number]
        if marks:
            title = f"<title>{xml_text(each.words())}</title>"
            paths.append(f'<path class="points mark{number}" d="{"".join(marks)}">{title}</path>')
    return paths


class _Upwards:
    """The axis of durations."""

    def __init__(self, area: Area, durations: Sequence[int], scale: Scale) -> None:
        self._area, self._log = area, scale == "log"
        low, high = max(min(durations), 1), max(*durations, 2)
        if self._log:
            self._low, self._high = low / 1.1, high * 1.1
        else:
            self._low, self._high = 0.0, high * 1.02

    def position(self, nanoseconds: float) -> float:
        """Where a duration is, in pixels."""
        if self._log:
            share = math.log(max(nanoseconds, 1) / self._low) / math.log(self._high / self._low)
        else:
            share = nanoseconds / self._high
        return round(self._area.bottom - share * self._area.height, 1)

    def ticks(self) -> list[tuple[float, str]]:
        """The ticks."""
        room = int(self._area.height / TICK_HEIGHT)
        if self._log:
            ticks = log_ticks(self._low, self._high, "nsecs", room)
        else:
            step = round_step(self._high, room)
            ticks = [(n * step, duration(n * step) if n else "0") for n in range(math.floor(self._high / step) + 1)]
        return [(self.position(value), label) for value, label in ticks]
