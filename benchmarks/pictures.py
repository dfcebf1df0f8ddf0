"""Time and memory for pictures of very many events: `python -m benchmarks.pictures`.

The events are made beforehand, a million of them, and given again and again at later times: only counting and drawing
are timed. Needs no root.
"""

from __future__ import annotations

import random
import resource
import time
from typing import TYPE_CHECKING, Protocol

from benchmarks.measure import table
from pyebpf.output.heat_counts import EventCounts
from pyebpf.output.heatmap import heat_map
from pyebpf.output.scatter import Points, scatter_plot

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS, ROUNDS = 1_000_000, 10
SECOND = 10**9


class Counted(Protocol):
    """What takes events."""

    def add(self, time: int, nanoseconds: int, /) -> None:
        """Take one."""


def measured(counted: Counted, draw: Callable[[], str], events: list[tuple[int, int]]) -> tuple[float, float, float]:
    """Seconds of the processor to take all events and to draw them, and MiB of the document."""
    add = counted.add
    start = time.process_time()
    for number in range(ROUNDS):
        later = number * 60 * SECOND
        for at, nanoseconds in events:
            add(at + later, nanoseconds)
    taken = time.process_time()
    document = draw()
    return taken - start, time.process_time() - taken, len(document) / (1 << 20)


def main() -> None:
    """Print the times."""
    draw = random.Random(7)  # noqa: S311 - the same events each time
    step = 60 * SECOND // EVENTS
    events = [(number * step, int(draw.lognormvariate(12, 1))) for number in range(EVENTS)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = []
    logarithmic, linear, points = EventCounts("log"), EventCounts("linear"), Points()
    for name, counted, drawing in (
        ("heat map", logarithmic, lambda: heat_map(logarithmic.grids(), title="")),
        ("heat map, linear", linear, lambda: heat_map(linear.grids(), title="")),
        ("scatter plot", points, lambda: scatter_plot(points, title="", scale="log")),
    ):
        took, drew, size = measured(counted, drawing, events)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        rows.append((name, f"{took:.1f}", f"{drew:.2f}", f"{size:.1f}", f"{grown:.0f}"))
    table(("10,000,000 events", "counting, processor s", "drawing, processor s", "file MiB", "peak grows by MiB"), rows)


if __name__ == "__main__":
    main()
