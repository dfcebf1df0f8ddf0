"""Ring buffers, as their users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.builder.ringbuf import RingBufferEntity
from pyebpf.dsl.buffers import Buffer, record_type, ring_size

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RingBuffer"]

T = TypeVar("T")


class RingBuffer(Buffer[T], RingBufferEntity):
    """`bpf.ringbuf(T)`: records that probes emit, read in order."""

    def __init__(self, record: Any, size: int, name: str) -> None:
        record = record_type(record, "ringbuf")
        self.name = name
        #: The type that records are decoded to.
        self.record_class: Any = record
        RingBufferEntity.__init__(self, self.current_name, record.layout, ring_size(size, "ringbuf"))

    def __repr__(self) -> str:
        return f"<RingBuffer {self.current_name()} of {self.record_class.__name__}>"

    def tuples(self) -> Sequence[tuple[Any, ...]]:
        """The records that are there as the tuples that `struct` unpacks: the fastest way, without field names."""
        found: Sequence[tuple[Any, ...]] = self.reader.tuples()
        return found

    if TYPE_CHECKING:

        def emit(self, record: T) -> None:  # type: ignore[override]  # as a probe writes it; the builder gives itself, too
            """In a probe: send a record to user space. When the buffer is full the record is dropped and counted."""
