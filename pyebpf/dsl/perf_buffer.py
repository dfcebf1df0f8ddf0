"""Perf buffers, as their users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.builder.perfbuf import PerfBufferEntity
from pyebpf.dsl.buffers import Buffer, record_type
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PerfBuffer"]

T = TypeVar("T")


class PerfBuffer(Buffer[T], PerfBufferEntity):
    """`bpf.perf_buffer(T)`: records that probes emit, one buffer a processor, in order for each."""

    def __init__(self, record: Any, pages: int, overwrite: bool, name: str) -> None:  # noqa: FBT001 - from one place
        self.name = name
        #: The type that records are decoded to.
        self.record_class: Any = record_type(record, "perf_buffer")
        if pages < 1 or pages & (pages - 1):
            raise InvalidValue(f"bpf.perf_buffer(pages={pages!r}): give a power of two")
        #: Options of the reader.
        self.reader_options: dict[str, Any] = {"pages": pages, "overwrite": overwrite}
        PerfBufferEntity.__init__(self, self.current_name, self.record_class.layout)

    def __repr__(self) -> str:
        return f"<PerfBuffer {self.current_name()} of {self.record_class.__name__}>"

    @property
    def lost_per_cpu(self) -> Mapping[int, int]:
        """Records that found no room (or were overwritten), by processor, as far as the buffers were read."""
        found: Mapping[int, int] = self.reader.lost_per_cpu
        return found

    if TYPE_CHECKING:

        def emit(self, record: T) -> None:  # type: ignore[override]  # as a probe writes it; the builder gives itself, too
            """In a probe: send a record to user space. When the buffer is full the record is dropped and counted."""
