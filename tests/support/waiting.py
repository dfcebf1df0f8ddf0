"""What a test waits for, with an end to its patience."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds; emulated machines take ten times as long as this one.
PATIENCE = 120


def wait_until(condition: Callable[[], Any], why: object = "", *, seconds: float = PATIENCE) -> Any:
    """What `condition` answers as soon as that is true. If it is not in time, the test fails.

    `why` is what the failure says, or a function that returns it.
    """
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, why() if callable(why) else why
        time.sleep(0.01)
    return answer
