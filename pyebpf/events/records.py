"""Records in a ring buffer's memory. Pure: memory and positions in, records and the next position out.

A record is a u32 header (length, bit 31 busy, bit 30 discarded), a u32 that is the kernel's own, and its bytes,
padded to 8. Behind the data area its beginning is mapped once more, so a record that wraps around reads on there.

Source: kernel/bpf/ringbuf.c, since Linux commit 457f44363a88 ("bpf: Implement BPF ring buffer and verifier support
for it") (v5.8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, MalformedData
from pyebpf.types import type_of
from pyebpf.uapi.flags import BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT, BPF_RINGBUF_HDR_SZ

if TYPE_CHECKING:
    from pyebpf.types import Type

#: Records that a run is first looked for among: one that is longer costs few more looks, one that is short no long one.
_FIRST_LOOK = 16
_LENGTH = BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT


def record_type(given: object) -> Type | None:
    """The type of a buffer's records: a Struct's, or a type as it is; None for bytes. Raises InvalidValue."""
    found = type_of(given)
    if found is None and given is not None:
        raise InvalidValue(
            f"record={given!r} is not a BPF type: give a Struct class, an integer type, char[N] or u8[N], or None for "
            "bytes"
        )
    return found


def stride(length: int) -> int:
    """Bytes from one record of `length` bytes to the next."""
    return BPF_RINGBUF_HDR_SZ + (length + 7 & ~7)


@dataclass(frozen=True, slots=True)
class Run:
    """`count` records of `length` bytes each, the first one's header at byte `start` of the data.

    `position` is where reading goes on. A count of 0 passes over a discarded record, or says that there is nothing to
    read (position unchanged).
    """

    start: int
    count: int
    length: int
    position: int


def next_run(data: memoryview, words: memoryview, consumer: int, producer: int, most: int) -> Run:
    """The longest run of complete records of equal length from position `consumer`, `most` at the most.

    `data` is the area with its beginning, or all of it, once more behind it, and `words` the same as u32; the area's
    size is a power of two. Positions count bytes ever written. Raises MalformedData for a header that no kernel writes.
    """
    size = 1 << (len(data) - 1).bit_length() - 1
    available = producer - consumer
    if available <= 0:
        return Run(0, 0, 0, consumer)
    start = consumer & (size - 1)
    header = words[start >> 2]
    if header & BPF_RINGBUF_BUSY_BIT:
        return Run(start, 0, 0, consumer)
    length = header & ~_LENGTH
    step = stride(length)
    if step > available or available > size:
        raise MalformedData(
            f"ring buffer is garbled: a record of {length} bytes at position {consumer}, written up to {producer}"
        )
    if header & BPF_RINGBUF_DISCARD_BIT:
        return Run(start, 0, length, consumer + step)
    count, ahead = 1, _FIRST_LOOK
    whole = min(max(min(available, len(data) - start) // step, 1), most)
    while count < whole:
        headers = words[
            (start + count * step) >> 2 : (start + min(count + ahead, whole) * step) >> 2 : step >> 2
        ].tolist()
        if headers.count(length) != len(headers):
            # Another length also ends the run: what lies a step further is then no header at all.
            count += next(index for index, other in enumerate(headers) if other != length)
            break
        count += len(headers)
        ahead *= 8
    return Run(start, count, length, consumer + count * step)


def mixed_records(
    data: memoryview, words: memoryview, consumer: int, producer: int, most: int
) -> tuple[list[bytes], int]:
    """Records of whatever lengths from position `consumer`, `most` at the most, and the position behind them.

    For those whose runs are short. Arguments and errors as for `next_run`.
    """
    last = (1 << (len(data) - 1).bit_length() - 1) - 1
    found: list[bytes] = []
    while consumer < producer and len(found) < most:
        start = consumer & last
        header = words[start >> 2]
        if header >= BPF_RINGBUF_BUSY_BIT:  # the highest bit
            break
        length = header & ~_LENGTH
        step = stride(length)
        if step > producer - consumer:
            raise MalformedData(
                f"ring buffer is garbled: a record of {length} bytes at position {consumer}, written up to {producer}"
            )
        if not header & BPF_RINGBUF_DISCARD_BIT:
            found.append(bytes(data[start + BPF_RINGBUF_HDR_SZ : start + BPF_RINGBUF_HDR_SZ + length]))
        consumer += step
    return found, consumer
