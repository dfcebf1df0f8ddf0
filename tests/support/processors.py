"""Processors that a test runs on."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def one_processor() -> Iterator[int]:
    """Keep this thread on the last of its processors, whose number is given, until the block ends.

    Per-CPU buffers and counters are then those of one processor: where a test compares what one of them holds or lost,
    the scheduler must not move the test in between.
    """
    allowed = os.sched_getaffinity(0)
    chosen = max(allowed)
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, allowed)
