"""Maps without keys as their users see them: queues, stacks and Bloom filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.builder.queues import BloomEntity, QueueEntity
from pyebpf.dsl.maps import Bound, bpf_type
from pyebpf.specs.maps import map_size
from pyebpf.uapi.bpf import MapType

__all__ = ["BloomFilter", "QueueMap"]

T = TypeVar("T")


class QueueMap(Bound, QueueEntity, Generic[T]):
    """`bpf.queue(T)` and `bpf.stack(T)`."""

    def __init__(self, kind: MapType, value: Any, size: int, name: str) -> None:
        self.name = name
        QueueEntity.__init__(self, self.current_name, kind, bpf_type(value, "value"), map_size(size))

    def __repr__(self) -> str:
        return f"<{self.kind.name.capitalize()} {self.current_name()}>"

    def push(self, value: T, *, make_room: bool = False) -> None:
        """Add a value. With `make_room` a full one gives up its oldest value; else that is KernelError.

        In a probe, a value that finds no room is counted in `bpf.dropped`.
        """
        self.backend.push(value, make_room=make_room)

    if TYPE_CHECKING:

        def pop(self) -> T | None:
            """Take the next value out; None if there is none."""

        def peek(self) -> T | None:
            """The next value, which stays; None if there is none."""
    else:

        def pop(self) -> Any:
            return self.backend.pop(None)

        def peek(self) -> Any:
            return self.backend.peek(None)

    def drain(self) -> list[T]:
        """Take out all values that are there, in their order."""
        taken: list[T] = self.backend.drain()
        return taken


class BloomFilter(Bound, BloomEntity, Generic[T]):
    """`bpf.bloom_filter(T)`."""

    def __init__(self, value: Any, size: int, hashes: int, name: str) -> None:
        self.name = name
        BloomEntity.__init__(
            self, self.current_name, MapType.BLOOM_FILTER, bpf_type(value, "value"), map_size(size), hashes
        )

    def __repr__(self) -> str:
        return f"<BloomFilter {self.current_name()}>"

    def add(self, value: T) -> None:
        """Add a value; it can't be taken out again."""
        self.backend.add(value)

    def __contains__(self, value: object) -> bool:
        return value in self.backend
