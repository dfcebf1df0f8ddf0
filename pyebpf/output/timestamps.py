"""Times of events: the day's time in text, ISO 8601 with nanoseconds and zone in CSV and JSON."""

from __future__ import annotations

import time

_SECOND = 1_000_000_000
_CLOCK = "%H:%M:%S"


class Timestamps:
    """Times of the kernel's monotonic clock as dates.

    The difference of the two clocks is read again once a second: somebody may set the date.
    """

    def __init__(self) -> None:
        self._read_until = 0
        self._difference = 0
        self._second = -1
        self._clock = self._date = self._zone = ""

    def now(self) -> int:
        """Nanoseconds of the monotonic clock of this process."""
        return time.monotonic_ns()

    def iso(self, monotonic: int) -> str:
        """The date of a time of the monotonic clock: 2026-11-24T09:30:00.123456789+01:00."""
        rest = self._split(monotonic)
        return f"{self._date}.{rest:09d}{self._zone}"

    def clock(self, monotonic: int) -> str:
        """The time of day, HH:MM:SS."""
        self._split(monotonic)
        return self._clock

    def _split(self, monotonic: int) -> int:
        """The nanoseconds of a second whose texts are kept, since events of one second follow each other."""
        now = time.monotonic_ns()
        if now >= self._read_until:
            self._read_until = now + _SECOND
            self._difference = time.time_ns() - now
        second, rest = divmod(monotonic + self._difference, _SECOND)
        if second != self._second:
            self._second = second
            local = time.localtime(second)
            zone = time.strftime("%z", local)
            self._clock = time.strftime(_CLOCK, local)
            self._date = time.strftime("%Y-%m-%dT", local) + self._clock
            self._zone = f"{zone[:3]}:{zone[3:5]}"
        return rest
