"""Reading per-CPU perf buffers of a BPF_MAP_TYPE_PERF_EVENT_ARRAY."""

from __future__ import annotations

from collections import deque
from itertools import islice
from operator import length_hint
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.collector import collector_paused
from pyebpf.errors import InvalidValue, MalformedData, check_argument
from pyebpf.events.perf_records import SAMPLE_HEADER, Uniform, read_backward, read_records, uniform, uniform_backward
from pyebpf.events.records import record_type
from pyebpf.events.stream import PORTION, EventStream
from pyebpf.kernel import map_elements, perf
from pyebpf.kernel.cpus import online_cpus
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.memory import PAGE_SIZE, Mapping
from pyebpf.objects import KernelMap
from pyebpf.types.codecs import assembler
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.perf_numbers import PERF_COUNT_SW_BPF_OUTPUT, PERF_SAMPLE_RAW, PERF_TYPE_SOFTWARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.types import Type

# struct perf_event_mmap_page: data_head and data_tail.
_HEAD_AT, _TAIL_AT = 1024, 1032


_PIECE = 1 << 16
"""Bytes copied out at a time, so that no memory has to be fetched from the system for them."""


class _Piece(NamedTuple):
    """Copied out of a buffer, not yet decoded: `rows` knows how many are left, `assemble` takes some of them."""

    assemble: Callable[[Iterator[Any], int], list[Any]]
    rows: Iterator[Any]


class _Buffer:
    """One processor's event and its memory. `overwrite`: the kernel writes on, backward, over what was not read."""

    def __init__(self, cpu: int, pages: int, name: str, *, overwrite: bool) -> None:
        self.cpu = cpu
        self.lost = 0
        self._overwrite = overwrite
        self._before = 0
        self.event: Descriptor = perf.perf_event_open(
            PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT, cpu=cpu, period=1, sample_type=PERF_SAMPLE_RAW,
            wakeup_events=1, backward=overwrite,
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

    def take(self, *, everything: bool) -> Iterator[Uniform | list[bytes]]:
        """Read what is there now, or the first of it; the oldest first, in pieces."""
        if self._overwrite:
            yield from self._take_newest()
            return
        head: int = self._head[0]
        while (tail := self._tail[0]) != head:
            alike = uniform(self._data, tail, head - tail, most=_PIECE) if 0 < head - tail <= len(self._data) else None
            if alike is not None:
                self._tail[0] = tail + len(alike.content)
                yield alike
                if everything:
                    continue
                break
            try:
                batch = read_records(self._data, tail, head)
            finally:
                self._tail[0] = head  # also past what is garbled, else it would be met for ever
            self.lost += batch.lost
            if batch.samples:  # there may be losses alone
                yield batch.samples

    def _take_newest(self) -> Iterator[Uniform | list[bytes]]:
        if self._head[0] == self._before:
            return
        # What is being read must not be written over meanwhile.
        perf.pause_output(self.event.fileno(), paused=True)
        try:
            head: int = self._head[0]
            before, self._before = self._before, head
            found = uniform_backward(self._data, before, head, PORTION)
            batch = read_backward(self._data, before, head) if found is None else None
        finally:
            perf.pause_output(self.event.fileno(), paused=False)
        if found is not None:
            self.lost += found[1]
            # The oldest first, but in each piece the newest first: it is turned when it is decoded, at once.
            yield from reversed(found[0])
        if batch is not None:
            self.lost += batch.lost
            if batch.samples:
                yield batch.samples

    def close(self) -> None:
        self._mapping.close()
        self.event.close()


class PerfBuffer(EventStream[Any]):
    """Reads a perf event array: one buffer of `pages` pages (a power of two) for each online processor.

    Records are in order for one processor, not between them. Each is decoded by `record`, a Struct class or a type;
    without one they are bytes, with up to 7 bytes of padding after what the program sent. `lost` counts what found no
    room.

    With `overwrite` a full buffer gives up its oldest records instead of refusing new ones: a flight recorder, read
    when something happened. `lost` then counts what was overwritten before it was read, if all records are of one
    size; what is sent in the moment of reading is lost without a trace. Raises NotPermitted, KernelError.
    """

    def __init__(
        self, array: KernelMap, record: Type | type | None = None, *, pages: int = 8, overwrite: bool = False
    ) -> None:
        check_argument("array", array, KernelMap, "a loaded map, as bpf.loaded_map(name) gives")
        if array.spec.type is not MapType.PERF_EVENT_ARRAY:
            raise InvalidValue(f"map {array.name} is not a perf event array but {array.spec.type.name}")
        if pages < 1 or pages & (pages - 1):
            raise InvalidValue(f"perf buffer {array.name}: {pages} pages are no power of two")
        super().__init__(array.name)
        self._array = array  # its entries go with the descriptor that set them
        self._record = record = record_type(record)
        if record is not None:
            assemble = assembler(record)
            self._assemble = (lambda rows, count: assemble(rows, count)[::-1]) if overwrite else assemble
        self._overwrite = overwrite
        #: Copied out, not yet decoded.
        self._waiting: deque[_Piece] = deque()
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
            raise kernel_error(error, f"opening perf buffers of {array.name}") from error

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

    def _take(self, *, everything: bool) -> list[Any]:
        if not everything:
            if not self._waiting:
                for buffer in self._buffers:
                    self._waiting.extend(map(self._piece, buffer.take(everything=False)))
            return self._next(PORTION) if self._waiting else []
        records: list[Any] = []
        try:
            with collector_paused():
                while self._waiting:
                    records += self._next(None)
                for buffer in self._buffers:
                    for assemble, rows in map(self._piece, buffer.take(everything=True)):
                        records += assemble(rows, length_hint(rows))
        except MalformedData:
            if records:  # they are good: the next call's
                self._waiting.appendleft(_Piece(_as_they_are, iter(records)))
            raise
        return records

    def _next(self, most: int | None) -> list[Any]:
        """Records of the oldest piece."""
        assemble, rows = self._waiting[0]
        count = length_hint(rows)
        if most is not None and count > most:
            count = most
        else:
            self._waiting.popleft()
        return assemble(rows, count)

    def _piece(self, taken: Uniform | list[bytes]) -> _Piece:
        record = self._record
        if isinstance(taken, Uniform):
            content, length, raw = taken
            if record is not None and raw >= record.size:
                plain = Struct(f"<{SAMPLE_HEADER}x{record.format}{length - SAMPLE_HEADER - record.size}x")
                return _Piece(self._assemble, plain.iter_unpack(content))
            samples = [content[at : at + raw] for at in range(SAMPLE_HEADER, len(content), length)]
            if self._overwrite:
                samples.reverse()
        else:
            samples = taken
        if record is None:
            return _Piece(_as_they_are, iter(samples))
        size, decode = record.size, record.decode
        good = [sample for sample in samples if len(sample) >= size]
        piece = _Piece(lambda rows, count: [decode(sample[:size]) for sample in islice(rows, count)], iter(good))
        if len(good) < len(samples):
            if good:
                self._waiting.append(piece)
            short = min(map(len, samples))
            raise MalformedData(f"perf buffer {self._map_name}: a record of {short} bytes, {record} has {size}")
        return piece

    def _release(self) -> None:
        self._waiting.clear()
        for buffer in self._buffers:
            buffer.close()


def _as_they_are(rows: Iterator[object], count: int) -> list[Any]:
    return list(islice(rows, count))
