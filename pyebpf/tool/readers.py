"""The results of a tool's `open`: its events, the counts of its intervals, its stacks; and how many were dropped."""

from __future__ import annotations

import os
import select
from collections import deque
from contextlib import suppress
from functools import cached_property
from itertools import chain
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.errors import InvalidValue, NotLoaded
from pyebpf.stop import Stop
from pyebpf.tool.drops import in_words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from pyebpf.output.stacks import Stack
    from pyebpf.tool.json_objects import JsonObjects

Yielded = TypeVar("Yielded")
#: Seconds after which `async for` looks for events that woke nobody.
_PERIOD = 0.2


class Reader:
    """The base of what a tool's `open` gives."""

    def __init__(
        self,
        name: str,
        dropped: Callable[[], Mapping[str, int]],
        drop_labels: Mapping[str, str],
        new_objects: Callable[[], JsonObjects],
    ) -> None:
        self._name = name
        self._new_objects = new_objects
        self._count_drops: Callable[[], Mapping[str, int]] | None = dropped
        self._drop_labels = drop_labels
        self._last_drops: dict[str, int] = {}
        self._ended: int | None = None  # the last interval

    @property
    def dropped(self) -> dict[str, int]:
        """Exact numbers of events dropped since `open`, by reason, in the command's words; empty if there are none.

        After the block it has the numbers of its end.
        """
        if self._count_drops is None:
            return dict(self._last_drops)
        return in_words(self._count_drops(), self._drop_labels)

    def as_json(self, record: object) -> dict[str, object]:
        """A record of this tool as the object that the command prints with `--json`, for `json.dumps`.

        It has the fields that `pyebpf schema TOOL` lists, for the options that `open` was given: `time`, an ISO 8601
        date, numbers in base units, addresses and the like as text.
        """
        return self._objects.of(record, self._ended)

    @cached_property
    def _objects(self) -> JsonObjects:
        return self._new_objects()

    def close(self) -> None:
        """Keep the numbers of drops. Leaving the block calls it."""
        if self._count_drops is not None:
            self._last_drops = self.dropped
            self._count_drops = None

    def _check_open(self) -> None:
        if self._count_drops is None:
            raise NotLoaded(f"{self._name} has ended: read inside `with {self._name}.open(...)`")


class Events(Reader, Generic[Yielded]):
    """The events of a tool, typed records in the order of the buffer: `for`, `async for`, `next()`, `poll(timeout)`.

    A loop waits for further events until the block is left. Records that were read and not yet given out are kept, so
    that leaving a loop loses none. It is for one thread.
    """

    def __init__(
        self,
        name: str,
        records: Callable[[Stop], Iterator[Yielded]],
        dropped: Callable[[], Mapping[str, int]],
        drop_labels: Mapping[str, str],
        new_objects: Callable[[], JsonObjects],
    ) -> None:
        super().__init__(name, dropped, drop_labels, new_objects)
        self._make = records
        self._stop = Stop()
        #: It holds records that it has read from the buffer, unless it is None.
        self._records: Iterator[Yielded] | None = None
        self._kept: deque[Yielded] = deque()
        self._epoll: select.epoll | None = None
        # Readable as long as a record may be here and not in the buffer.
        self._here = -1

    def __iter__(self) -> Iterator[Yielded]:
        # Not a generator: that would close the one it takes records from, with what it holds, when a loop is left.
        return chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[Iterator[Yielded]]:
        while True:
            yield self._take_kept()
            if self._count_drops is None:
                return
            records = self._current()
            yield records
            if self._records is records:  # else `poll` in the loop has read to its end
                return

    def _take_kept(self) -> Iterator[Yielded]:
        while self._kept:
            yield self._kept.popleft()

    def __next__(self) -> Yielded:
        if self._kept:
            return self._kept.popleft()
        if self._count_drops is None:
            raise StopIteration
        return next(self._current())

    def __aiter__(self) -> AsyncIterator[Yielded]:
        return self._stream()

    async def _stream(self) -> AsyncIterator[Yielded]:
        import asyncio

        loop = asyncio.get_running_loop()
        descriptor = self.fileno()
        while self._count_drops is not None:
            self._kept.extend(self.poll(0))
            self._tell()
            if self._kept:
                for record in self._take_kept():
                    yield record
                await asyncio.sleep(0)  # a fast producer must not keep other tasks from running
                continue
            readable = asyncio.Event()
            loop.add_reader(descriptor, readable.set)
            try:
                async with asyncio.timeout(_PERIOD):  # not every submission wakes
                    await readable.wait()
            except TimeoutError:
                pass
            finally:
                loop.remove_reader(descriptor)

    def poll(self, timeout: float | None = 0.0) -> list[Yielded]:
        """All records that are there, after waiting at most `timeout` seconds for the first (None: without end).

        Raises NotLoaded when the block has been left.
        """
        self._check_open()
        records = self._current()
        try:
            with self._stop.within(0.0 if self._kept else timeout):
                # They are kept as they come: an exception, such as KeyboardInterrupt, loses none.
                for record in records:
                    self._kept.append(record)
                    self._stop.end_after(0)
        finally:
            if getattr(records, "gi_frame", None) is None:  # it has ended
                self._let_go()
        found = list(self._kept)
        self._kept.clear()
        self._tell()
        return found

    def fileno(self) -> int:
        """A descriptor that is readable when `poll(0)` may give records, for select, poll, epoll and event loops.

        Level-triggered use only; and call `poll(0)` every now and then, since a program may submit without waking
        anybody. Raises NotLoaded when the block has been left, InvalidValue for a tool whose `records` waits for no
        descriptor.
        """
        self._check_open()
        if self._epoll is None:
            if not self._stop.sources:
                self._kept.extend(self.poll(0))
            if not self._stop.sources:
                raise InvalidValue(
                    f"tool {self._name} has no descriptor to wait for: let its `records` read by `events(buffer, stop)`"
                )
            self._here = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._epoll = select.epoll()
            for descriptor in (self._here, *self._stop.sources):
                self._epoll.register(descriptor, select.EPOLLIN)
            self._tell()
        return self._epoll.fileno()

    def close(self) -> None:
        """End the loops over it. Leaving the block calls it."""
        super().close()
        self._let_go()
        self._kept.clear()
        self._stop.close()
        if self._epoll is not None:
            self._epoll.close()
            os.close(self._here)
            self._epoll = None

    def _current(self) -> Iterator[Yielded]:
        if self._records is None:
            self._records = self._make(self._stop)
            self._tell()
        return self._records

    def _let_go(self) -> None:
        records, self._records = self._records, None
        close = getattr(records, "close", None)  # generators have one, other iterators need none
        if close is not None:
            close()

    def _tell(self) -> None:
        """Let the descriptor be readable if records may be here."""
        if self._epoll is not None:
            if self._records is not None or self._kept:
                os.eventfd_write(self._here, 1)
            else:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._here)


class Snapshot(Reader, Generic[Yielded]):
    """The counts of a summary tool: a call returns what was counted since the one before."""

    def __init__(
        self,
        name: str,
        count: Callable[[], Iterable[Yielded]],
        records: Callable[[Stop], Iterable[object]],
        dropped: Callable[[], Mapping[str, int]],
        drop_labels: Mapping[str, str],
        new_objects: Callable[[], JsonObjects],
    ) -> None:
        super().__init__(name, dropped, drop_labels, new_objects)
        self._count = count
        self._records = records

    def __call__(self) -> list[Yielded]:
        """Return what was counted since the call before."""
        found = list(self._count())
        self._ended = monotonic_ns()
        return found

    def events(self) -> list[Any]:
        """Events since the call before; none of a tool without `lines`."""
        with Stop() as stop, stop.within(0):
            return list(self._records(stop))


class Stacks(Reader):
    """The stacks of a stack tool: a call watches for so many seconds, then returns what was counted."""

    def __init__(
        self,
        name: str,
        collect: Callable[[Stop], Iterable[Stack]],
        dropped: Callable[[], Mapping[str, int]],
        drop_labels: Mapping[str, str],
        new_objects: Callable[[], JsonObjects],
    ) -> None:
        super().__init__(name, dropped, drop_labels, new_objects)
        self._collect = collect

    def __call__(self, seconds: float) -> list[Stack]:
        """Return what was counted in so many seconds from now."""
        with Stop() as stop:
            stop.end_after(seconds)
            found = list(self._collect(stop))
        self._ended = monotonic_ns()
        return found
