"""Writing a user ring buffer: records from this process to programs that drain it.

The memory is a ring buffer's with the roles exchanged: this side owns the producer's position and the data, the kernel
the consumer's.

Source: kernel/bpf/ringbuf.c, since Linux 6.1.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from pyebpf.closing import Closing
from pyebpf.errors import InvalidValue, NotLoaded, check_argument
from pyebpf.events.records import record_type, stride
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.memory import PAGE_SIZE, Mapping
from pyebpf.kernel.wait import writable_within
from pyebpf.objects import KernelMap
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_RINGBUF_HDR_SZ

if TYPE_CHECKING:
    from pyebpf.types import Type


class UserRingBuffer(Closing):
    """Sends records to programs that call bpf_user_ringbuf_drain.

    They are of the type `record`, which is a Struct class, too; bytes without one.
    Safe to use from several threads of one process; one process at a time. Raises KernelError if the buffer can't be
    mapped.
    """

    def __init__(self, ring: KernelMap, record: Type | type | None = None) -> None:
        check_argument("ring", ring, KernelMap, "a loaded map, as bpf.loaded_map(name) gives")
        if ring.spec.type is not MapType.USER_RINGBUF:
            raise InvalidValue(f"map {ring.name} is not a user ring buffer but {ring.spec.type.name}")
        self.name = ring.name
        self.size = ring.max_entries
        self._fd = ring.fileno()
        self._record = record_type(record)
        self._lock = Lock()
        self._closed = False
        try:
            self._consumer_map = Mapping(self._fd, PAGE_SIZE)
            try:
                self._producer_map = Mapping(self._fd, PAGE_SIZE + 2 * self.size, offset=PAGE_SIZE, writable=True)
            except BaseException:
                self._consumer_map.close()
                raise
        except OSError as error:
            raise kernel_error(error, f"mapping user ring buffer {ring.name}", needs=("CAP_BPF",)) from error
        self._consumer = self._consumer_map.words(0, 1)
        self._producer = self._producer_map.words(0, 1)
        self._data = self._producer_map.part(PAGE_SIZE, 2 * self.size, "B")
        self._words = self._producer_map.part(PAGE_SIZE, 2 * self.size, "Q")

    def _check_open(self) -> None:
        if self._closed:
            raise NotLoaded(f"user ring buffer {self.name} is closed")

    @property
    def waiting(self) -> int:
        """Bytes that no program has taken yet, headers among them."""
        self._check_open()
        count: int = self._producer[0] - self._consumer[0]
        return count

    def send(self, value: object) -> bool:
        """Put one record into the buffer; False if there is no room until a program drains it.

        Raises InvalidValue for a value that does not fit the type, or a record larger than the buffer.
        """
        content = value if self._record is None else self._record.encode(value)
        if not isinstance(content, bytes | bytearray | memoryview):
            raise InvalidValue(f"{value!r} is not a record of user ring buffer {self.name}: give bytes")
        length = len(content)
        step = stride(length)
        if step > self.size:
            most = self.size - BPF_RINGBUF_HDR_SZ
            raise InvalidValue(f"a record of {length} bytes: user ring buffer {self.name} holds {most} at the most")
        with self._lock:
            self._check_open()
            position: int = self._producer[0]
            if position + step - self._consumer[0] > self.size:
                return False
            start = position & (self.size - 1)
            # Mapped twice in a row: a record across the end goes on in the second copy. The header is written in one
            # piece, then the position, by which alone the kernel sees either.
            self._data[start + BPF_RINGBUF_HDR_SZ : start + BPF_RINGBUF_HDR_SZ + length] = content
            self._words[start >> 3] = length
            self._producer[0] = position + step
        return True

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds until a program has made room; whether there is some."""
        self._check_open()
        return writable_within(self._fd, timeout)

    def close(self) -> None:
        """Unmap; the map stays. A second call does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._producer_map.close()
                self._consumer_map.close()
