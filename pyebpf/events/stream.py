"""Base of every event reader: iteration, poll, asyncio, a descriptor for other loops."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from itertools import chain
from operator import length_hint
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from pyebpf.closing import Closing
from pyebpf.errors import NotLoaded
from pyebpf.kernel.wait import Epoll

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import AsyncIterator, Iterator

PORTION = 256
"""Records decoded at a time while iterating: they are still in the processor's cache when they are used, and so few
that Python's garbage collector, which looks at every 700 new objects, is never due."""

T = TypeVar("T")
_PERIOD = 0.1
"""Seconds between looks at the memory itself: a program may submit without waking anybody."""


class EventStream(Closing, ABC, Generic[T]):
    """Decoded records in the order of the buffer. Iterating blocks until `close()`, from wherever it is called.

    Records that were read and not yet given out are kept for the next call, so that leaving a loop loses none. Safe
    to use from several threads; each record goes to one of them.
    """

    def __init__(self, map_name: str) -> None:
        self._map_name = map_name
        self._closed = False
        # Read and not yet given out. Every loop takes from this one iterator, which is safe between threads.
        self._pending: Iterator[T] = iter(())
        self._lock = Lock()
        self._epoll: Epoll | None = None

    @abstractmethod
    def _descriptors(self) -> list[int]:
        """Descriptors that become readable with data."""

    @abstractmethod
    def _take(self, *, everything: bool) -> list[T]:
        """Records that are complete now, decoded: all of them, or a piece that keeps iteration fast. Under the lock."""

    @abstractmethod
    def _release(self) -> None:
        """Unmap and close."""

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def _waiter(self) -> Epoll:
        if self.closed:
            raise NotLoaded(f"events of {self._map_name} are closed: read them inside `with`")
        with self._lock:
            if self._epoll is None:
                self._epoll = Epoll(*self._descriptors())
            return self._epoll

    def fileno(self) -> int:
        """A descriptor that is readable when records are there, for select, poll, epoll and event loops.

        Level-triggered use only; and call `poll(0)` every now and then, since a program may submit without waking
        anybody.
        """
        return self._waiter().fileno()

    def _collect(self) -> list[T]:
        with self._lock:
            if self.closed:
                return []
            pending, records = list(self._pending), self._take(everything=True)
            return pending + records if pending else records

    def poll(self, timeout: float | None = 0.0) -> list[T]:
        """All records that are there, after waiting at most `timeout` seconds for the first (None: without end).

        Raises NotLoaded after `close()`.
        """
        waiter = self._waiter()
        records = self._collect()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not records and not self.closed:
            left = _PERIOD if deadline is None else min(deadline - time.monotonic(), _PERIOD)
            if left <= 0:
                break
            waiter.wait(left)
            records = self._collect()
        return records

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._pieces(self._waiter()))

    def _pieces(self, waiter: Epoll) -> Iterator[Iterator[T]]:
        """Yield pending records, again and again: no Python code runs between the records of a piece."""
        while not self.closed:
            if not self._refill():
                waiter.wait(_PERIOD)
            yield self._pending

    def _refill(self) -> bool:
        """Read what is there; whether anything can be given out."""
        with self._lock:
            if self.closed:
                return False
            if not length_hint(self._pending):
                self._pending = iter(self._take(everything=False))
            return length_hint(self._pending) > 0

    def __aiter__(self) -> AsyncIterator[T]:
        return self._stream()

    async def _stream(self) -> AsyncIterator[T]:
        import asyncio

        loop = asyncio.get_running_loop()
        descriptor = self.fileno()
        while not self.closed:
            for record in self._pending:
                yield record
            if self._refill():
                await asyncio.sleep(0)  # a fast producer must not keep other tasks from running
            elif not self.closed:
                await self._readable(loop, descriptor)

    @staticmethod
    async def _readable(loop: AbstractEventLoop, descriptor: int) -> None:
        """Wait until the descriptor is readable, one period at the most: not every submission wakes."""
        import asyncio

        readable = asyncio.Event()
        loop.add_reader(descriptor, readable.set)
        try:
            async with asyncio.timeout(_PERIOD):
                await readable.wait()
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(descriptor)

    def close(self) -> None:
        """Give up the buffer; loops over it end. A second call does nothing."""
        with self._lock:
            if self.closed:
                return
            self._closed = True
            self._release()
            for _ in self._pending:  # loops that hold the iterator end, too
                pass
            if self._epoll is not None:
                self._epoll.close()
