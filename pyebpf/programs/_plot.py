"""Line charts over time as SVG, without any dependency."""

from __future__ import annotations

import math
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from pyebpf.tool import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

WIDTH, HEIGHT, HEAD = 900, 260, 32
LEFT, RIGHT, TOP, BOTTOM = 80, 160, 30, 48
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
COLOURS = ("#1f77b4", "#e6550d", "#2ca02c", "#9467bd")
MARK = "#d62728"
FONT = 'font-family="sans-serif" font-size="12"'
#: Ticks of the axis of time and of the other, at most.
TICKS_ACROSS, TICKS_UPWARDS = 11, 7
#: A line of more points is drawn by the first, the last, the lowest and the highest of each pixel's.
MOST_POINTS = 4 * PLOT_WIDTH
TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
SIZE_UNITS = (("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))

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


@dataclass(frozen=True)
class Axis:
    """A linear scale from `low` on, which has a tick every `step`; its labels count in units of `scale`."""

    unit: str
    scale: float
    low: float
    span: float
    step: float

    def ticks(self) -> list[tuple[float, str]]:
        """The values of the ticks, and their labels."""
        decimals = max(0, -math.floor(math.log10(self.step / self.scale) + 1e-9))
        numbers = range(math.floor(self.span / self.step + 1e-9) + 1)
        return [(self.low + n * self.step, f"{n * self.step / self.scale:,.{decimals}f}") for n in numbers]


def line_charts(title: str, panels: Sequence[Panel]) -> str:
    """Charts below each other, over the same seconds."""
    times = [time for panel in panels for points in panel.lines.values() for time, _ in points] or [0.0]
    first, last = min(times), max(times)
    span = max(last - first, 1e-6)
    unit, scale = next((each for each in TIME_UNITS if span >= each[1]), TIME_UNITS[-1])
    across = Axis(unit, scale, first, span, _step(span / scale, TICKS_ACROSS) * scale)
    height = HEAD + len(panels) * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="16">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, HEAD + number * HEIGHT + TOP, across)
    return "\n".join([*parts, "</svg>", ""])


def _step(span: float, ticks: int) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that gives no more ticks than that."""
    rough = span / (ticks - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


def _upwards(panel: Panel) -> Axis:
    """From 0 to a tick at or above the highest value; of whole numbers, in steps of whole numbers."""
    most = max((value for points in panel.lines.values() for _, value in points), default=0) or 1
    unit, scale = panel.unit, 1.0
    if unit == "bytes":
        unit, scale = next((each for each in SIZE_UNITS if most >= 2 * each[1]), SIZE_UNITS[-1])
    step = _step(most / scale, TICKS_UPWARDS) * scale
    if scale == 1:
        step = max(step, 1.0)
    return Axis(unit, scale, 0.0, math.ceil(most / step - 1e-9) * step, step)


def _panel(panel: Panel, top: int, across: Axis) -> list[str]:
    upwards, bottom, right = _upwards(panel), top + PLOT_HEIGHT, LEFT + PLOT_WIDTH

    def x(time: float) -> str:
        return f"{LEFT + (time - across.low) / across.span * PLOT_WIDTH:.1f}"

    def y(value: float) -> str:
        return f"{bottom - value / upwards.span * PLOT_HEIGHT:.1f}"

    parts = [f'<text x="{LEFT}" y="{top - 9}" font-weight="bold">{escape(panel.title)}</text>']
    for value, label in upwards.ticks():
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{y(value)}" y2="{y(value)}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value)}" dy="4" text-anchor="end">{label}</text>')
    for time, label in across.ticks():
        parts.append(f'<line x1="{x(time)}" x2="{x(time)}" y1="{top}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(time)}" y="{bottom + 20}" text-anchor="middle">{label}</text>')
    middle = top + PLOT_HEIGHT // 2
    parts += [
        f'<rect x="{LEFT}" y="{top}" width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" fill="none" stroke="#888"/>',
        f'<text x="{right}" y="{bottom + 36}" text-anchor="end">time since the first event ({across.unit})</text>',
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{escape(upwards.unit)}</text>',
    ]
    key = top + 10
    for (name, points), colour in zip(panel.lines.items(), COLOURS, strict=False):
        path: list[str] = []
        for time, value in _fewer(points, x):
            path.append(f"H{x(time)}V{y(value)}" if path else f"M{x(time)} {y(value)}")
        parts.append(f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        parts.append(f'<line x1="{right + 12}" x2="{right + 32}" y1="{key}" y2="{key}" stroke="{colour}" {_THICK}/>')
        parts.append(_legend(right, key, name))
        key += 20
    for name, moments in (panel.marks or {}).items():
        for at in dict.fromkeys(x(moment) for moment in moments):
            parts.append(_triangle(at, bottom + 1))
        parts += [_triangle(f"{right + 22}", key - 3), _legend(right, key, f"{name} ({len(moments):,})")]
        key += 20
    return parts


_THICK = 'stroke-width="3"'


def _legend(right: int, key: int, text: str) -> str:
    return f'<text x="{right + 38}" y="{key + 4}">{escape(text)}</text>'


def _triangle(x: str, y: int) -> str:
    """A mark whose tip is there."""
    return f'<polygon points="0,0 -3,6 3,6" transform="translate({x} {y})" fill="{MARK}"/>'


def _fewer(points: Sequence[Point], x: Callable[[float], str]) -> Iterable[Point]:
    """The points, or of so many that they hide each other those that show."""
    if len(points) <= MOST_POINTS:
        return points
    kept: list[Point] = []
    for _, group in groupby(points, key=lambda point: x(point[0]).partition(".")[0]):
        column = list(group)
        values = [value for _, value in column]
        places = {0, len(column) - 1, values.index(min(values)), values.index(max(values))}
        kept += [column[place] for place in sorted(places)]
    return kept
