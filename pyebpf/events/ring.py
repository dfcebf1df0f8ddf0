"""Reading a BPF ring buffer."""

from __future__ import annotations

from operator import length_hint
from struct import Struct
from typing import TYPE_CHECKING, Any

from pyebpf.collector import collector_paused
from pyebpf.errors import InvalidValue, MalformedData, check_argument
from pyebpf.events.records import mixed_records, next_run, record_type, stride
from pyebpf.events.stream import PORTION, EventStream
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.memory import PAGE_SIZE, Mapping
from pyebpf.objects import KernelMap
from pyebpf.types.codecs import assembler
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_RINGBUF_HDR_SZ

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.types import Type

_MAX_ELEMENTS = 1 << 12
"""Records copied before their room is given back to the programs."""
_SHORT_RUN = 8
"""Runs below this are read record by record, with those behind them."""
_PIECE = 1 << 16
"""Bytes copied out at a time while iterating."""


class RingBuffer(EventStream[Any]):
    """Reads the ring buffer `ring`; each record is decoded by `record`, a Struct class or a type (bytes without one).

    Room is given back as soon as the records are copied out. A program that finds no room has to count that itself:
    the buffer does not know. Raises KernelError if the buffer can't be mapped, MalformedData for records of another
    size than `record`.
    """

    def __init__(self, ring: KernelMap, record: Type | type | None = None) -> None:
        check_argument("ring", ring, KernelMap, "a loaded map, as bpf.loaded_map(name) gives")
        if ring.spec.type is not MapType.RINGBUF:
            raise InvalidValue(f"map {ring.name} is not a ring buffer but {ring.spec.type.name}")
        super().__init__(ring.name)
        self.size = ring.max_entries
        self._fd = ring.fileno()
        self._record = record = record_type(record)
        try:
            # The consumer's page is writable, the producer's page and the data, twice in a row, are not. All that is
            # mapped counts as this process's memory: of the second copy there is as much as one record needs.
            self._consumer_map = Mapping(self._fd, PAGE_SIZE, writable=True)
            again = self.size if record is None else min(self.size, -(-stride(record.size) // PAGE_SIZE) * PAGE_SIZE)
            try:
                self._producer_map = Mapping(self._fd, PAGE_SIZE + self.size + again, offset=PAGE_SIZE)
            except BaseException:
                self._consumer_map.close()
                raise
        except OSError as error:
            raise kernel_error(error, f"mapping ring buffer {ring.name}", needs=("CAP_BPF",)) from error
        self._consumer = self._consumer_map.words(0, 1)
        self._producer = self._producer_map.words(0, 1)
        self._data = self._producer_map.part(PAGE_SIZE, self.size + again, "B")
        self._words = self._producer_map.part(PAGE_SIZE, self.size + again, "I")
        #: Copied out, not yet decoded.
        self._rows: Iterator[tuple[object, ...]] = iter(())
        if record is not None:
            padding = stride(record.size) - BPF_RINGBUF_HDR_SZ - record.size
            self._plain = Struct(f"<{BPF_RINGBUF_HDR_SZ}x{record.format}{padding}x")
            self._assemble = assembler(record)

    @property
    def unread(self) -> int:
        """Bytes that wait in the buffer, headers among them."""
        if self._closed:
            return 0
        waiting: int = self._producer[0] - self._consumer[0]
        return waiting

    def _descriptors(self) -> list[int]:
        return [self._fd]

    def _take(self, *, everything: bool) -> list[Any]:
        if self._record is None:
            return self._read(_copies, self.size if everything else _PIECE)
        if not everything:
            if not length_hint(self._rows):
                self._rows = self._unpacked(_PIECE)
            return self._assemble(self._rows, min(length_hint(self._rows), PORTION))
        with collector_paused():
            result = self._assemble(self._rows, length_hint(self._rows))
            self._rows = self._unpacked(self.size)
            latest = self._assemble(self._rows, length_hint(self._rows))
        return result + latest if result else latest

    def _unpacked(self, size: int) -> Iterator[tuple[object, ...]]:
        """Return the records of the next `size` bytes as tuples: copied at once, unpacked when they are asked for."""
        return self._plain.iter_unpack(b"".join(self._read(_whole, size)))

    def tuples(self) -> list[tuple[Any, ...]]:
        """All records that are there as the tuples that `struct` unpacks: the fastest way, without field names.

        Integers are numbers, character and byte arrays bytes with their padding, big-endian integers bytes.
        """
        if self._record is None:
            raise InvalidValue(f"ring buffer {self._map_name} has no record type to unpack")
        self._waiter()
        with self._lock, collector_paused():
            return [*self._rows, *self._unpacked(self.size)]

    def _read(self, copy: Callable[[memoryview, int], list[bytes]], size: int) -> list[bytes]:
        result: list[bytes] = []
        data, words = self._data, self._words
        expected = None if self._record is None else self._record.size
        position: int = self._consumer[0]
        producer: int = self._producer[0]
        # No more than what one buffer holds, so that a fast producer can't keep the reader here for ever.
        limit = position + size
        while position < limit:
            run = next_run(data, words, position, producer, _MAX_ELEMENTS)
            if run.position == position:
                # Nothing, or a busy record. The kernel wakes a reader only if it saw the consumer's position up to
                # date, and nothing orders our store before our load: look once more.
                latest: int = self._producer[0]
                if latest == producer or position != producer:
                    break
                producer = latest
                continue
            if run.count:
                if expected is not None and run.length != expected:
                    if result:
                        break  # what came before is good; the next call meets this one first
                    self._consumer[0] = run.position
                    raise MalformedData(
                        f"ring buffer {self._map_name}: a record of {run.length} bytes, {self._record} has {expected}"
                    )
                with data[run.start : run.start + run.count * stride(run.length)] as part:
                    result += copy(part, run.length)
            position = run.position
            if expected is None and run.count < _SHORT_RUN and copy is _copies:
                records, position = mixed_records(data, words, position, producer, _MAX_ELEMENTS)
                result += records
            self._consumer[0] = position
        return result

    def _release(self) -> None:
        self._rows = iter(())
        self._consumer_map.close()
        self._producer_map.close()


def _whole(data: memoryview, _length: int) -> list[bytes]:
    return [bytes(data)]


def _copies(data: memoryview, length: int) -> list[bytes]:
    step, whole = stride(length), bytes(data)
    return [whole[at : at + length] for at in range(BPF_RINGBUF_HDR_SZ, len(whole), step)]
