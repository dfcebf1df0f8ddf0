"""Records in a perf buffer's memory. Pure: memory and positions in, samples, losses and the next position out.

A record is `struct perf_event_header { __u32 type; __u16 misc, size; }` and its body, a multiple of 8 bytes
altogether. The data area is mapped once: a record may continue at its start.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from pyebpf.errors import MalformedData

__all__ = ["PerfBatch", "read_records"]

_HEADER = Struct("<IHH")
_RECORD_LOST, _RECORD_SAMPLE = 2, 9  # enum perf_event_type
# PERF_RECORD_LOST: { struct perf_event_header; __u64 id, lost; }
_LOST = Struct("<QQ")
# PERF_RECORD_SAMPLE with PERF_SAMPLE_RAW alone: { struct perf_event_header; __u32 size; char data[size]; }
_RAW_SIZE = Struct("<I")


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
    start = tail & (size - 1)
    # Copied in one piece: a record may go on at the start.
    content = bytes(data[start : start + head - tail])
    content += bytes(data[: head - tail - len(content)])
    samples: list[bytes] = []
    lost = 0
    at = 0
    end = len(content)
    while at < end:
        if end - at < _HEADER.size:
            raise MalformedData(f"perf buffer is garbled: {end - at} bytes are no record")
        kind, _, length = _HEADER.unpack_from(content, at)
        if not _HEADER.size <= length <= end - at:
            raise MalformedData(f"perf buffer is garbled: a record of {length} bytes where {end - at} are left")
        body = at + _HEADER.size
        if kind == _RECORD_SAMPLE:
            if length < _HEADER.size + _RAW_SIZE.size:
                raise MalformedData(f"perf buffer is garbled: a sample of {length} bytes")
            raw = _RAW_SIZE.unpack_from(content, body)[0]
            body += _RAW_SIZE.size
            if raw > at + length - body:
                raise MalformedData(f"perf buffer is garbled: a sample of {raw} bytes in a record of {length}")
            samples.append(content[body : body + raw])
        elif kind == _RECORD_LOST:
            if length < _HEADER.size + _LOST.size:
                raise MalformedData(f"perf buffer is garbled: a loss record of {length} bytes")
            lost += _LOST.unpack_from(content, body)[1]
        at += length
    return PerfBatch(samples, lost, head)
