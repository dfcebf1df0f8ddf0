"""What a test waits for, with an end to its patience."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds; emulated machines take ten times as long as this one.
PATIENCE = 120


def wait_until(condition: Callable[[], Any], why: Callable[[], object] = str, *, seconds: float = PATIENCE) -> Any:
    """What `condition` answers as soon as that is true. The test fails with `why()` if it is not in time."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, why()
        time.sleep(0.01)
    return answer
