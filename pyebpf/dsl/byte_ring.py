"""`bpf.byte_ring()`: a ring buffer of records whose length only the event knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.intrinsics.dynptr import ByteRingEntity
from pyebpf.dsl.buffers import Buffer, ring_size

__all__ = ["ByteRing"]


class ByteRing(Buffer[bytes], ByteRingEntity):
    """`bpf.byte_ring()`: records of any length, read as bytes."""

    def __init__(self, size: int, name: str) -> None:
        self.name = name
        ByteRingEntity.__init__(self, self.current_name, ring_size(size, "byte_ring"))

    def __repr__(self) -> str:
        return f"<ByteRing {self.current_name()}>"

    if TYPE_CHECKING:

        def reserve(self, size: int) -> Any:  # type: ignore[override]  # as a probe writes it
            """In a probe: `with ring.reserve(n) as data:`, a record of n bytes, sent at the end of `with`."""
