"""Records in a perf buffer's memory. Pure: memory and positions in, samples, losses and the next position out.

A record is `struct perf_event_header { __u32 type; __u16 misc, size; }` and its body, a multiple of 8 bytes
altogether. The data area is mapped once: a record may continue at its start.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from pyebpf.errors import MalformedData
from pyebpf.uapi.perf_numbers import PERF_RECORD_LOST, PERF_RECORD_SAMPLE

_HEADER = Struct("<IHH")
# PERF_RECORD_LOST: { struct perf_event_header; __u64 id, lost; }
_LOST = Struct("<QQ")
# PERF_RECORD_SAMPLE with PERF_SAMPLE_RAW alone: { struct perf_event_header; __u32 size; char data[size]; }
_RAW_SIZE = Struct("<I")
_WORD = (1 << 64) - 1
SAMPLE_HEADER = 12
"""Bytes before a sample's raw data."""


class Uniform(NamedTuple):
    """Samples of one length, end to end in `content`: how far from one to the next, how many bytes of raw data each."""

    content: bytes
    length: int
    raw: int


class PerfBatch(NamedTuple):
    """Raw samples (with the kernel's padding at their ends), how many were lost between them, and the next position."""

    samples: list[bytes]
    lost: int
    position: int


def read_records(data: memoryview, tail: int, head: int) -> PerfBatch:
    """All records from position `tail` to `head`; the data's length is a power of two. Raises MalformedData."""
    size = len(data)
    if not 0 <= head - tail <= size:
        raise MalformedData(f"perf buffer is garbled: read to {tail}, written to {head}, {size} bytes in all")
    return PerfBatch(*_records(_copy(data, tail, head - tail), cut=False)[:2], head)


def read_backward(data: memoryview, before: int, head: int) -> PerfBatch:
    """Records of a buffer written backward, the oldest first: those newer than position `before`, as far as they last.

    `head` is the newest record's position; positions count down, modulo 2**64. `lost` estimates what was overwritten
    by the newest record's length: exact where all have the same. Raises MalformedData.
    """
    written = before - head & _WORD
    available = min(written, len(data))
    samples, lost, lengths = _records(_copy(data, head, available), cut=available < written)
    samples.reverse()
    if available < written and lengths:
        lost += (written - sum(lengths)) // lengths[0]
    return PerfBatch(samples, lost, head)


def uniform(data: memoryview, position: int, count: int, *, most: int | None = None) -> Uniform | None:
    """`count` bytes from a position, if they are samples of one length only; no more than fit into `most` bytes.

    None otherwise: they have to be read one by one.
    """
    first = _copy(data, position, min(count, _HEADER.size + _RAW_SIZE.size))
    if len(first) < _HEADER.size + _RAW_SIZE.size:
        return None
    kind, _, length = _HEADER.unpack_from(first)
    if kind != PERF_RECORD_SAMPLE or length < _HEADER.size + 8 or length & 7 or length > count:
        return None
    if most is not None and count > most:
        count = max(most // length, 1) * length
    elif count % length:
        return None
    content = _copy(data, position, count)
    # The header is one word: type, misc, size. The raw size comes after it. All are equal if each equals the next.
    headers = memoryview(content).cast("Q")[:: length >> 3]
    sizes = memoryview(content).cast("I")[2 :: length >> 2]
    if headers[1:] != headers[:-1] or sizes[1:] != sizes[:-1]:
        return None
    raw: int = sizes[0]
    return Uniform(content, length, raw) if raw <= length - _HEADER.size - _RAW_SIZE.size else None


def uniform_backward(data: memoryview, before: int, head: int, most: int) -> tuple[list[Uniform], int] | None:
    """Read as `read_backward` does if all samples have one length: the newest first, and how many were lost.

    In pieces of `most` samples.
    """
    written = before - head & _WORD
    available = min(written, len(data))
    if available < _HEADER.size:
        return None
    length = max(_HEADER.unpack(_copy(data, head, _HEADER.size))[2], 1)
    if available < written:
        available -= available % length  # the oldest may have been overwritten in part
    pieces: list[Uniform] = []
    for at in range(0, available, most * length):
        piece = uniform(data, head + at, min(most * length, available - at))
        if piece is None or piece.length != length:
            return None
        pieces.append(piece)
    return (pieces, (written - available) // length) if pieces else None


def _copy(data: memoryview, position: int, count: int) -> bytes:
    """`count` bytes from a position, in one piece: a record may go on at the start."""
    start = position & (len(data) - 1)
    content = bytes(data[start : start + count])
    return content + bytes(data[: count - len(content)])


def _records(content: bytes, *, cut: bool) -> tuple[list[bytes], int, list[int]]:
    """Samples, losses, and the records' lengths. With `cut` the last record may have been overwritten in part."""
    samples: list[bytes] = []
    lengths: list[int] = []
    lost = at = 0
    end = len(content)
    while at < end:
        if end - at < _HEADER.size:
            if cut:
                break
            raise MalformedData(f"perf buffer is garbled: {end - at} bytes are no record")
        kind, _, length = _HEADER.unpack_from(content, at)
        if cut and length > end - at:
            break
        if not _HEADER.size <= length <= end - at:
            raise MalformedData(f"perf buffer is garbled: a record of {length} bytes where {end - at} are left")
        body = at + _HEADER.size
        if kind == PERF_RECORD_SAMPLE:
            if length < _HEADER.size + _RAW_SIZE.size:
                raise MalformedData(f"perf buffer is garbled: a sample of {length} bytes")
            raw = _RAW_SIZE.unpack_from(content, body)[0]
            body += _RAW_SIZE.size
            if raw > at + length - body:
                raise MalformedData(f"perf buffer is garbled: a sample of {raw} bytes in a record of {length}")
            samples.append(content[body : body + raw])
        elif kind == PERF_RECORD_LOST:
            if length < _HEADER.size + _LOST.size:
                raise MalformedData(f"perf buffer is garbled: a loss record of {length} bytes")
            lost += _LOST.unpack_from(content, body)[1]
        lengths.append(length)
        at += length
    return samples, lost, lengths
