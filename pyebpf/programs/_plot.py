"""Line charts over time as SVG, without any dependency."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from pyebpf.tool import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Panel", "line_charts"]

WIDTH, HEIGHT = 900, 240
LEFT, RIGHT, TOP, BOTTOM = 90, 180, 28, 34
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
TICKS = 5


@dataclass(frozen=True)
class Panel:
    """A chart: lines by name, each with its points (seconds, value); a value holds until the next point."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, int]]]


def line_charts(title: str, panels: Sequence[Panel]) -> str:
    """Charts below each other, over the same seconds."""
    times = [time for panel in panels for points in panel.lines.values() for time, _ in points] or [0.0]
    first, last = min(times), max(times)
    height = 30 + len(panels) * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" style="font: 12px sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, 30 + number * HEIGHT, first, max(last - first, 1e-9))
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, top: int, first: float, span: float) -> list[str]:
    most = max((value for points in panel.lines.values() for _, value in points), default=0) or 1
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    low = top + TOP + height

    def x(time: float) -> str:
        return f"{LEFT + (time - first) / span * width:.1f}"

    def y(value: int) -> str:
        return f"{low - value / most * height:.1f}"

    parts = [f'<text x="{LEFT}" y="{top + TOP - 8}">{escape(panel.title)}</text>']
    for tick in range(TICKS + 1):
        value, time = most * tick // TICKS, first + span * tick / TICKS
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y(value)}" y2="{y(value)}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value)}" dy="4" text-anchor="end">{value:,}</text>')
        parts.append(f'<text x="{x(time)}" y="{low + 16}" text-anchor="middle">{time - first:.3g} s</text>')
    parts.append(f'<text transform="translate(14 {low - height // 2}) rotate(-90)">{escape(panel.unit)}</text>')
    for number, (name, points) in enumerate(panel.lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path: list[str] = []
        for time, value in points:
            path.append(f"H{x(time)}V{y(value)}" if path else f"M{x(time)} {y(value)}")
        parts.append(f'<path d="{"".join(path)}" fill="none" stroke="{colour}"/>')
        at = top + TOP + 14 + 18 * number
        parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{at}" fill="{colour}">{escape(name)}</text>')
    return parts
