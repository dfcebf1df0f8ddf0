"""The area of a chart with its frame, and the ticks and titles of its axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.output.svg import END, MIDDLE, text

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Area:
    """A rectangle, in pixels."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.top + self.height

    @property
    def attributes(self) -> str:
        """Those of an element at its place."""
        return f'x="{self.left:g}" y="{self.top:g}" width="{self.width:g}" height="{self.height:g}"'

    def axes(
        self, across: Iterable[tuple[float, str]], upwards: Iterable[tuple[float, str]], below: str, beside: str
    ) -> list[str]:
        """Lines of a grid at positions, each with its label; the frame; the titles of both axes."""
        parts = []
        for y, label in upwards:
            parts.append(
                f'<line class="grid" x1="{self.left:g}" x2="{self.right:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
                f"{text(self.left - 6, round(y + 4, 1), label, END)}"
            )
        for x, label in across:
            parts.append(
                f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{self.top:g}" y2="{self.bottom:g}"/>'
                f"{text(round(x, 1), self.bottom + 20, label, MIDDLE)}"
            )
        turned = f'transform="translate(16 {self.top + self.height / 2:g}) rotate(-90)" {MIDDLE}'
        parts += [
            f'<rect class="frame" {self.attributes} fill="none"/>',
            text(self.right, self.bottom + 36, below, END),
            text(0, 0, beside, turned),
        ]
        return parts
