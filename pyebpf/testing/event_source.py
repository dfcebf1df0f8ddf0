"""Buffers of records in a simulation: read as events, or written for programs to drain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue, NotLoaded
from pyebpf.vm.maps.perf_event_array import PerfEventArrayMap
from pyebpf.vm.maps.ringbuf import RingBufferMap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyebpf.types import Struct
    from pyebpf.vm import VmMap
    from pyebpf.vm.maps.user_ringbuf import UserRingBufferMap


class EventSource:
    """A ring buffer or perf event array as decoded records. Iterating ends when there are none left."""

    def __init__(self, vm: VmMap, record: type[Struct] | None) -> None:
        self.vm = vm
        self._record = record

    def fileno(self) -> int:
        """There is no descriptor."""
        raise NotLoaded(f"events of {self.vm.name} are simulated: they have no descriptor")

    def poll(self, timeout: float | None = 0.0) -> list[Any]:  # noqa: ARG002 - nothing comes while one waits
        """All records that are there."""
        if isinstance(self.vm, RingBufferMap):
            raw = self.vm.poll()
        elif isinstance(self.vm, PerfEventArrayMap):
            raw = [data for _, data in self.vm.events]
            self.vm.events.clear()
        else:
            raise InvalidValue(f"map {self.vm.name} has no events")
        return raw if self._record is None else [self._record.layout.decode(data) for data in raw]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.poll())

    async def __aiter__(self) -> AsyncIterator[Any]:
        for each in self.poll():
            yield each


def _stride(length: int) -> int:
    """Bytes that a record takes: its header, and all rounded up to 8."""
    return 8 + (length + 7 & ~7)


class UserRing:
    """A user ring buffer, with the room that the kernel's has."""

    def __init__(self, vm: UserRingBufferMap, record: type[Struct]) -> None:
        self.vm = vm
        self._record = record

    @property
    def waiting(self) -> int:
        """Bytes that no program has taken yet."""
        return sum(_stride(len(sample)) for sample in self.vm.samples)

    def send(self, value: object) -> bool:
        """Put one record in, if there is room."""
        raw = self._record.layout.encode(value)
        if self.waiting + _stride(len(raw)) > self.vm.max_entries:
            return False
        self.vm.samples.append(raw)
        return True

    def wait(self, timeout: float) -> bool:  # noqa: ARG002 - nothing happens while one waits
        """Whether there is room."""
        return self.waiting < self.vm.max_entries
