"""The ends of a summary's intervals."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.tool import Stop

SLACK = 0.001  # seconds; an interval that ends this close to the run's end is the last


def intervals(interval: float | None, stop: Stop, wait: Callable[[float | None], object]) -> Iterator[tuple[int, bool]]:
    """Wait for the end of each interval, then yield its number from 1 and whether it is the last.

    Ends are multiples of the interval, in seconds, from the start, however long printing takes; those it missed are
    left out. None is one interval until the stop.
    """
    start, number, tick = monotonic(), 0, 0
    while True:
        if interval is None:
            wait(None)
        else:
            tick = max(tick + 1, int((monotonic() - start) / interval))
            wait(start + tick * interval - monotonic())
        number += 1
        remaining = stop.remaining()
        yield number, remaining is not None and remaining <= SLACK
