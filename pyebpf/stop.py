"""The end of a run: who asks for it, who waits for it, and what is read until then, with its times."""

from __future__ import annotations

import os
import select
from contextlib import contextmanager, suppress
from functools import cache
from math import ceil, inf
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

_SECOND = 1_000_000_000  # nanoseconds
#: Fields of records, in the order of their times, that a probe's now() fills.
_TIMES = ("time", "began", "ended")
_LONGEST_POLL = 3600.0  # seconds; poll(2) takes milliseconds in an int
# Seconds of processor time, and by the clock: on a busy machine the end is within a second, too.
_OVERDUE, _LATE = 0.4, 0.5
#: Events that are given after that, too. To print them takes 25 ms; on a machine that is slow or busy they are all.
_KEPT = 4096


class Readable(Protocol):
    """A ring buffer."""

    def fileno(self) -> int:
        """The descriptor that is readable when records are there."""

    def poll(self, timeout: float) -> Sequence[object]:
        """The records that are there, or come within `timeout` seconds."""


class Stop:
    """A request to end, from a signal handler, another thread, or a clock; every wait on it ends at once.

    It is a pipe that becomes readable: `wakeup` is its write end, fit for `signal.set_wakeup_fd`. `reader` is the
    descriptor of an output; when whatever reads it goes away, that is a request to end, too. `unread` counts events
    that were there at the end, and too many to be read. `before_waiting` is called before each wait. `while_waiting` is
    called at its beginning, and then whenever the seconds are over that it returned. `sources` are the descriptors of
    what `events` reads until this stop. `reason` is who asked for the end: "signal", "reader", "time", or nobody.
    """

    def __init__(self, *, reader: int | None = None) -> None:
        self._read, self.wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._reader = reader
        self._stopped = False
        self._asked = self._asked_at = inf
        self._deadline: float | None = None
        self.unread = 0
        self.sources: set[int] = set()
        self.before_waiting: Callable[[], None] | None = None
        self.while_waiting: Callable[[], float] | None = None
        self._reason: Literal["", "signal", "reader"] = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the pipe. Nothing may wait any more."""
        self._stopped = True
        read, write, self._read, self.wakeup = self._read, self.wakeup, -1, -1
        for descriptor in (read, write):
            if descriptor >= 0:
                os.close(descriptor)

    def fileno(self) -> int:
        """The descriptor that is readable after `set`."""
        return self._read

    @property
    def reason(self) -> Literal["", "signal", "reader", "time"]:
        """Who asked for the end; empty if nobody has."""
        return self._reason or ("time" if self.is_set() else "")

    def set(self) -> None:
        """Ask to end."""
        self._stopped = True
        self._reason = self._reason or "signal"
        self._asked, self._asked_at = min(self._asked, process_time()), min(self._asked_at, monotonic())
        if self.wakeup >= 0:
            with suppress(BlockingIOError):  # a full pipe is readable all the same
                os.write(self.wakeup, b"\0")

    def end_after(self, seconds: float) -> None:
        """Ask to end in so many seconds from now."""
        self._deadline = monotonic() + seconds

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[Self]:
        """Inside, the end is in `seconds` at the latest: for loops that obey a stop, and are to pause before it."""
        deadline = self._deadline
        if seconds is not None:
            until = monotonic() + seconds
            self._deadline = until if deadline is None else min(deadline, until)
        try:
            yield self
        finally:
            self._deadline = deadline

    def remaining(self) -> float | None:
        """Seconds until the end asked for; None if no end is set, 0 when it is over."""
        if self._stopped:
            return 0.0
        return None if self._deadline is None else max(self._deadline - monotonic(), 0.0)

    def is_set(self) -> bool:
        """Whether it is time to end."""
        return self._stopped or (self._deadline is not None and monotonic() >= self._deadline)

    def is_overdue(self) -> bool:
        """Whether the end was asked for so long ago that what is left to read stays unread: it may be a million."""
        return self._asked_at != inf and self.patience() <= 0

    def patience(self) -> float:
        """Seconds that may go into what is still to be done; without a limit until `set`."""
        return min(self._asked + _OVERDUE - process_time(), self._asked_at + _LATE - monotonic())

    def wait(self, seconds: float | None = None, *descriptors: int) -> bool:
        """Wait until it is time to end, `seconds` are over, or a descriptor is readable; then answer `is_set()`."""
        if self._stopped:
            return True
        if self.before_waiting is not None:
            self.before_waiting()
        poller = select.poll()
        poller.register(self._read, select.POLLIN)
        for descriptor in descriptors:
            poller.register(descriptor, select.POLLIN)
        if self._reader is not None:
            poller.register(self._reader, 0)  # errors and hang-ups are reported unasked
        until = None if seconds is None else monotonic() + seconds
        while not self.is_set():
            limits = [_LONGEST_POLL]
            if until is not None:
                limits.append(max(until - monotonic(), 0.0))
            if self._deadline is not None:
                limits.append(max(self._deadline - monotonic(), 0.0))
            if self.while_waiting is not None:
                limits.append(self.while_waiting())
            ready = poller.poll(ceil(min(limits) * 1000))
            if any(descriptor == self._reader for descriptor, _ in ready):
                self._stopped, self._reason = True, "reader"
            elif ready or (until is not None and monotonic() >= until):
                break
        return self.is_set()


def events(source: Readable, stop: Stop) -> Iterator[Any]:
    """The records of a ring buffer as they come, until `stop`; those that are there by then are the last.

    Printing those may take long; after 0.4 seconds of work, or 0.5 by the clock, since `stop.set()` all but 4,096 are
    dropped, and counted in `stop.unread`. It waits at most a second at a time: a wake-up lost between reader and kernel
    delays records, but loses none.
    """
    kept = _KEPT
    stop.sources.add(source.fileno())
    while True:
        ending = stop.is_set()
        records = source.poll(0)
        for number, record in enumerate(records, 1):
            yield record
            if stop.is_overdue():
                kept -= 1
                if kept <= 0:
                    stop.unread += len(records) - number
                    return
        if ending:
            return
        if not records:
            stop.wait(1.0, source.fileno())


class EventsOf:
    """The `records` of an event tool whose records are those of one ring buffer."""

    def __init__(self, source: str | type, times: tuple[str, ...]) -> None:
        self.source = source
        self.times = times

    def __call__(self, bpf: Any, _options: Any, stop: Stop) -> Iterator[Any]:
        found = events(bpf[self.source] if isinstance(self.source, str) else _buffer_of(bpf, self.source), stop)
        if not self.times or monotonic_time(0) == 0:
            return found
        return map(self._converted, found)

    def _converted(self, record: object) -> object:
        for each in self.times:
            setattr(record, each, monotonic_time(getattr(record, each)))
        return record


def events_of(source: str | type, *times: str) -> EventsOf:
    """The `records` of an event tool whose records are those of the ring buffer of a name, or of a class of records.

    `times` are fields that a probe's now() filled: they become times of this process's monotonic clock, which is
    another in a time namespace. The last of them is the tool's `time`, unless it names another. Of a class they are by
    default its fields `time`, `began` and `ended`.
    """
    if not isinstance(source, str) and not times:
        fields = source.layout.by_name  # type: ignore[attr-defined]  # a Struct's, which this module need not import
        times = tuple(name for name in _TIMES if name in fields)
    return EventsOf(source, times)


def _buffer_of(bpf: Any, record: type) -> Readable:
    """The ring buffer of a class of records."""
    found: list[Readable] = [each for each in bpf.maps if getattr(each, "record_class", None) is record]
    if len(found) != 1:
        count = "no ring buffer" if not found else f"{len(found)} ring buffers"
        raise InvalidValue(f"{count} for {record.__name__}: name the one to read, records=events_of('NAME', 'time')")
    return found[0]


def last_time(records: object) -> str:
    """The time of a tool's events as its `records` name it; "" if they name none."""
    return records.times[-1] if isinstance(records, EventsOf) and records.times else ""


def monotonic_time(kernel: int) -> int:
    """Return what time.monotonic_ns() says in this process when a probe's now() says `kernel`.

    In a time namespace the two differ.
    """
    return kernel + _offset()


@cache
def _offset() -> int:
    """Nanoseconds that a time namespace adds (since Linux 5.5)."""
    from pathlib import Path  # four milliseconds, with what it imports, of every start

    own = Path("/proc/self")
    try:
        # The file is about the namespace of children, which one that has been unshared is not yet this process's.
        if (own / "ns/time").readlink() != (own / "ns/time_for_children").readlink():
            return 0
        clocks = [line.split() for line in (own / "timens_offsets").read_text(encoding="ascii").splitlines()]
    except OSError:
        return 0
    return next((int(s) * _SECOND + int(ns) for clock, s, ns in clocks if clock == "monotonic"), 0)
