"""Times of events: the day's time in text, ISO 8601 with nanoseconds and zone in CSV and JSON."""

from __future__ import annotations

import time

_SECOND = 1_000_000_000
_CLOCK = "%H:%M:%S"


class Dates:
    """Nanoseconds since 1970 as dates, of this process's time zone or one that is `zone` seconds east of UTC."""

    def __init__(self, zone: int | None = None) -> None:
        self._fixed = zone
        self.zone = zone or 0
        self._second = -1
        self._clock = self._date = self._offset = ""

    def now(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns()

    def iso(self, at: int) -> str:
        """The date: 2026-11-24T09:30:00.123456789+01:00."""
        rest = self.split(at)
        return f"{self._date}.{rest:09d}{self._offset}"

    def clock(self, at: int) -> str:
        """The time of day, HH:MM:SS."""
        self.split(at)
        return self._clock

    def set_zone(self, zone: int) -> None:
        """Show times from here on in a zone so many seconds east of UTC."""
        self._fixed, self._second = zone, -1

    def split(self, at: int) -> int:
        """The nanoseconds of a second whose texts are kept, since events of one second follow each other."""
        second, rest = divmod(at, _SECOND)
        if second != self._second:
            self._second = second
            if self._fixed is None:
                local = time.localtime(second)
                self.zone = local.tm_gmtoff
            else:
                self.zone = self._fixed
                local = time.gmtime(second + self.zone)
            minutes = abs(self.zone) // 60
            self._clock = time.strftime(_CLOCK, local)
            self._date = time.strftime("%Y-%m-%dT", local) + self._clock
            self._offset = f"{'-' if self.zone < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
        return rest


class Timestamps:
    """Times of the kernel's monotonic clock as dates.

    The difference of the two clocks is read again once a second: somebody may set the date.
    """

    def __init__(self) -> None:
        self._read_until = 0
        self._difference = 0
        self._dates = Dates()

    def now(self) -> int:
        """Nanoseconds of the monotonic clock of this process."""
        return time.monotonic_ns()

    def date(self, monotonic: int) -> int:
        """Nanoseconds since 1970 at a time of the monotonic clock."""
        now = time.monotonic_ns()
        if now >= self._read_until:
            self._read_until = now + _SECOND
            self._difference = time.time_ns() - now
        return monotonic + self._difference

    def iso(self, monotonic: int) -> str:
        """The date of a time of the monotonic clock: 2026-11-24T09:30:00.123456789+01:00."""
        return self._dates.iso(self.date(monotonic))

    def clock(self, monotonic: int) -> str:
        """The time of day, HH:MM:SS."""
        return self._dates.clock(self.date(monotonic))
