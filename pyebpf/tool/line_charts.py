"""Line charts over time as SVG, without any dependency."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.output.area import Area
from pyebpf.output.axes import time_axis, value_axis
from pyebpf.output.svg import PAINTS, SERIES, Paint, document, paints, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyebpf.output.axes import Axis

WIDTH, HEIGHT, HEAD = 900, 260, 32
LEFT, RIGHT, TOP, BOTTOM = 80, 160, 30, 48
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
#: Lines leave the second colour, red, to the marks.
LINES = (SERIES[0], SERIES[4], SERIES[2], SERIES[3])
COLOURS = len(LINES)
RULES = (*PAINTS, *paints("line", LINES, "stroke"), Paint(".mark", "fill", *SERIES[1]))
#: Ticks of the axis of time and of the other, at most.
TICKS_ACROSS, TICKS_UPWARDS = 11, 7
#: A line of more points is drawn by the first, the last, the lowest and the highest of each pixel's.
MOST_POINTS = 4 * PLOT_WIDTH

Point = tuple[float, int]


@dataclass(frozen=True)
class Panel:
    """A chart: lines by name, each with its points (seconds, value); a value holds until the next point.

    `marks` are moments by name, which are shown as triangles on the time axis. The unit `bytes` may be shown as KiB or
    MiB.
    """

    title: str
    unit: str
    lines: Mapping[str, Sequence[Point]]
    marks: Mapping[str, Sequence[float]] | None = None


def line_charts(title: str, panels: Sequence[Panel]) -> str:
    """Charts below each other, over the same seconds."""
    times = [time for panel in panels for points in panel.lines.values() for time, _ in points] or [0.0]
    across = time_axis(min(times), max(times), TICKS_ACROSS)
    parts = [text(LEFT, 22, title, 'font-size="16"')]
    for number, panel in enumerate(panels):
        parts += _panel(panel, HEAD + number * HEIGHT + TOP, across)
    return document(WIDTH, HEAD + len(panels) * HEIGHT, parts, label=title, rules=RULES)


def _panel(panel: Panel, top: int, across: Axis) -> list[str]:
    most = max((value for points in panel.lines.values() for _, value in points), default=0)
    upwards = value_axis(most, panel.unit, TICKS_UPWARDS)
    area = Area(LEFT, top, PLOT_WIDTH, PLOT_HEIGHT)

    def x(time: float) -> float:
        return area.left + (time - across.low) / across.span * area.width

    def y(value: float) -> float:
        return area.bottom - value / upwards.span * area.height

    parts = [
        text(area.left, top - 9, panel.title, 'font-weight="bold"'),
        *area.axes(
            [(x(time), label) for time, label in across.ticks()],
            [(y(value), label) for value, label in upwards.ticks()],
            f"time since the first event ({across.unit})",
            upwards.unit,
        ),
    ]
    key = top + 10
    for number, (name, points) in enumerate(panel.lines.items()):
        path: list[str] = []
        for time, value in _fewer(points, x):
            path.append(f"{'H' if path else 'M'}{x(time):.1f}{'V' if path else ' '}{y(value):.1f}")
        colour = f'class="line{number % COLOURS}"'
        parts += [
            f'<path {colour} d="{"".join(path)}" fill="none" stroke-width="1.3"/>',
            f'<polyline {colour} points="{area.right + 12:g},{key} {area.right + 32:g},{key}" stroke-width="3"/>',
            text(area.right + 38, key + 4, name),
        ]
        key += 20
    for name, moments in (panel.marks or {}).items():
        parts += [_triangle(at, area.bottom + 1) for at in dict.fromkeys(f"{x(moment):.1f}" for moment in moments)]
        parts += [
            _triangle(f"{area.right + 22:g}", key - 3),
            text(area.right + 38, key + 4, f"{name} ({len(moments):,})"),
        ]
        key += 20
    return parts


def _triangle(x: str, y: float) -> str:
    """A mark whose tip is there."""
    return f'<polygon class="mark" points="0,0 -3,6 3,6" transform="translate({x} {y:g})"/>'


def _fewer(points: Sequence[Point], x: Callable[[float], float]) -> Iterable[Point]:
    """The points, or of so many that they hide each other those that show."""
    if len(points) <= MOST_POINTS:
        return points
    kept: list[Point] = []
    for _, group in groupby(points, key=lambda point: int(x(point[0]))):
        column = list(group)
        values = [value for _, value in column]
        places = {0, len(column) - 1, values.index(min(values)), values.index(max(values))}
        kept += [column[place] for place in sorted(places)]
    return kept
