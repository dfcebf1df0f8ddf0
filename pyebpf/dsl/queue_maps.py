"""Maps without keys as their users see them: queues, stacks and Bloom filters."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pyebpf.builder.queues import BloomEntity, QueueEntity
from pyebpf.dsl.maps import Bound, bpf_type
from pyebpf.maps.bloom_filter import StoredBloomFilter
from pyebpf.maps.queue import StoredQueue
from pyebpf.specs.maps import map_size
from pyebpf.uapi.bpf import MapType

__all__ = ["BloomFilter", "QueueMap"]

T = TypeVar("T")


class QueueMap(Bound, StoredQueue[T], QueueEntity, Generic[T]):
    """`bpf.queue(T)` and `bpf.stack(T)`."""

    def __init__(self, kind: MapType, value: Any, size: int, name: str) -> None:
        self.name = name
        QueueEntity.__init__(self, self.current_name, kind, bpf_type(value, "value"), map_size(size))

    def __repr__(self) -> str:
        return f"<{self.kind.name.capitalize()} {self.current_name()}>"

    def pop(self) -> T | None:  # type: ignore[override]  # as in a probe
        """Take the next value out; None if there is none."""
        found: T | None = super().pop(None)
        return found

    def peek(self) -> T | None:  # type: ignore[override]  # as in a probe
        """The next value, which stays; None if there is none."""
        found: T | None = super().peek(None)
        return found


class BloomFilter(Bound, StoredBloomFilter[T], BloomEntity, Generic[T]):
    """`bpf.bloom_filter(T)`."""

    def __init__(self, value: Any, size: int, hashes: int, name: str) -> None:
        self.name = name
        BloomEntity.__init__(
            self, self.current_name, MapType.BLOOM_FILTER, bpf_type(value, "value"), map_size(size), hashes
        )
