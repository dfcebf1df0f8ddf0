"""Reading per-CPU perf buffers of a BPF_MAP_TYPE_PERF_EVENT_ARRAY."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue, MalformedData
from pyebpf.events.perf_records import SAMPLE_HEADER, read_backward, read_records, uniform
from pyebpf.events.stream import EventStream, collected_afterwards
from pyebpf.kernel import map_elements, perf
from pyebpf.kernel.cpus import online_cpus
from pyebpf.kernel.diagnosis import diagnose
from pyebpf.kernel.memory import PAGE_SIZE, Mapping
from pyebpf.objects.codec import assembler
from pyebpf.specs import MapKind

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.objects import Map
    from pyebpf.types import Type

__all__ = ["PerfBuffer"]

_TYPE_SOFTWARE, _BPF_OUTPUT, _SAMPLE_RAW = 1, 10, 1 << 10
# struct perf_event_mmap_page: data_head and data_tail.
_HEAD_AT, _TAIL_AT = 1024, 1032


_WORD = (1 << 64) - 1
Decode = Callable[[tuple[bytes, int, int] | None, list[bytes]], list[Any]]
"""Function from samples of one length laid end to end, or from samples one by one, to records."""


class _Buffer:
    """One processor's event and its memory. `overwrite`: the kernel writes on, backward, over what was not read."""

    def __init__(self, cpu: int, pages: int, name: str, *, overwrite: bool) -> None:
        self.cpu = cpu
        self.lost = 0
        self._overwrite = overwrite
        self._before = 0
        self.event: Descriptor = perf.perf_event_open(
            _TYPE_SOFTWARE, _BPF_OUTPUT, cpu=cpu, period=1, sample_type=_SAMPLE_RAW, wakeup_events=1,
            backward=overwrite,
            what=f"perf buffer {name} of processor {cpu}",
        )  # fmt: skip
        try:
            self._mapping = Mapping(self.event.fileno(), (1 + pages) * PAGE_SIZE, writable=not overwrite)
        except BaseException:
            self.event.close()
            raise
        self._head = self._mapping.words(_HEAD_AT, 1)
        self._tail = self._mapping.words(_TAIL_AT, 1)
        self._data = self._mapping.part(PAGE_SIZE, pages * PAGE_SIZE, "B")

    def take(self, decode: Decode) -> list[Any]:
        """All records, decoded; the oldest first."""
        if self._overwrite:
            return self._take_newest(decode)
        tail, head = self._tail[0], self._head[0]
        if tail == head:
            return []
        try:
            alike = uniform(self._data, tail, head - tail) if 0 < head - tail <= len(self._data) else None
            if alike is not None:
                return decode(alike, [])
            batch = read_records(self._data, tail, head)
        finally:
            self._tail[0] = head  # also past what is garbled, else it would be met for ever
        self.lost += batch.lost
        return decode(None, batch.samples)

    def _take_newest(self, decode: Decode) -> list[Any]:
        if self._head[0] == self._before:
            return []
        # What is being read must not be written over meanwhile.
        perf.pause_output(self.event.fileno(), paused=True)
        try:
            head: int = self._head[0]
            before, self._before = self._before, head
            written = before - head & _WORD
            there = min(written, len(self._data))
            alike = uniform(self._data, head, there, cut=there < written)
            batch = read_backward(self._data, before, head) if alike is None else None
        finally:
            perf.pause_output(self.event.fileno(), paused=False)
        if batch is None:
            assert alike is not None
            self.lost += (written - len(alike[0])) // alike[1]
            return decode(alike, [])[::-1]
        self.lost += batch.lost
        return decode(None, batch.samples)

    def close(self) -> None:
        self._mapping.close()
        self.event.close()


class PerfBuffer(EventStream[Any]):
    """Reads a perf event array: one buffer of `pages` pages (a power of two) for each online processor.

    Records are in order for one processor, not between them. Each is decoded by `record` (bytes without one, with up
    to 7 bytes of padding after what the program sent). `lost` counts what found no room.

    With `overwrite` a full buffer gives up its oldest records instead of refusing new ones: a flight recorder, read
    when something happened. `lost` then counts what was overwritten before it was read, if all records are of one
    size; what is sent in the moment of reading is lost without a trace. Raises NotPermitted, KernelError.
    """

    def __init__(self, array: Map, record: Type | None = None, *, pages: int = 8, overwrite: bool = False) -> None:
        super().__init__()
        if array.spec.kind is not MapKind.PERF_EVENT_ARRAY:
            raise InvalidValue(f"map {array.name} is no perf event array but {array.spec.kind.name}")
        if pages < 1 or pages & (pages - 1):
            raise InvalidValue(f"perf buffer {array.name}: {pages} pages are no power of two")
        self._map_name = array.name
        self._array = array
        self._record = record
        self._assemble = None if record is None else assembler(record)
        self._closed = False
        self._buffers: list[_Buffer] = []
        try:
            for cpu in online_cpus():
                if cpu < array.max_entries:
                    self._buffers.append(_Buffer(cpu, pages, array.name, overwrite=overwrite))
                    number = self._buffers[-1].event.fileno()
                    map_elements.map_update_elem(
                        array.fileno(), cpu.to_bytes(4, "little"), number.to_bytes(4, "little")
                    )
                    perf.enable(number)
        except OSError as error:
            self._release()
            raise diagnose(error, f"opening perf buffers of {array.name}") from error

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def _name(self) -> str:
        return self._map_name

    @property
    def lost(self) -> int:
        """Records that found no room, as far as the buffers were read: the kernel tells with the next record."""
        return sum(buffer.lost for buffer in self._buffers)

    @property
    def lost_per_cpu(self) -> dict[int, int]:
        """`lost` by processor number."""
        return {buffer.cpu: buffer.lost for buffer in self._buffers}

    def _descriptors(self) -> list[int]:
        return [buffer.event.fileno() for buffer in self._buffers]

    def _take(self, *, everything: bool) -> list[Any]:  # noqa: ARG002 - perf buffers are small
        decode = self._decode
        with collected_afterwards():
            return [record for buffer in self._buffers for record in buffer.take(decode)]

    def _decode(self, alike: tuple[bytes, int, int] | None, samples: list[bytes]) -> list[Any]:
        record = self._record
        if alike is not None and (record is None or alike[2] < record.size):
            content, length, raw = alike
            samples = [content[at : at + raw] for at in range(SAMPLE_HEADER, len(content), length)]
            alike = None
        if record is None:
            return samples
        if alike is not None:
            content, length, _ = alike
            plain = Struct(f"<{SAMPLE_HEADER}x{record.format}{length - SAMPLE_HEADER - record.size}x")
            assert self._assemble is not None
            return self._assemble(plain.iter_unpack(content), len(content) // plain.size)
        size, decode = record.size, record.decode
        short = next((sample for sample in samples if len(sample) < size), None)
        if short is not None:
            raise MalformedData(f"perf buffer {self._map_name}: a record of {len(short)} bytes, {record} has {size}")
        return [decode(sample[:size]) for sample in samples]

    def _release(self) -> None:
        self._closed = True
        for buffer in self._buffers:
            buffer.close()
