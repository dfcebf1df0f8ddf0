"""The memory of a ring buffer."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData
from pyebpf.events.records import next_run, stride
from pyebpf.uapi.flags import BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT, BPF_RINGBUF_HDR_SZ

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/events/records.py",)
TEXT = False
DICTIONARY = (b"\0\0\0\x80", b"\0\0\0\x40", b"\x08\0\0\0", b"\xff\xff\xff\x3f", b"\x01\0\0\0")
_SIZE = 256
_HEAD = struct.Struct("<IHH")


def _one_by_one(content: bytes, consumer: int, producer: int) -> tuple[list[bytes], int, bool]:
    """Records read naively: from a copy, a header at a time; whether it ended at something garbled."""
    records = []
    while consumer < producer:
        start = consumer % _SIZE
        (header,) = struct.unpack_from("<I", content, start)
        if header & BPF_RINGBUF_BUSY_BIT:
            break
        length = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT)
        if producer - consumer > _SIZE or stride(length) > producer - consumer:
            return records, consumer, True
        if not header & BPF_RINGBUF_DISCARD_BIT:
            records.append(content[start + BPF_RINGBUF_HDR_SZ : start + BPF_RINGBUF_HDR_SZ + length])
        consumer += stride(length)
    return records, consumer, False


def target(data: bytes) -> None:
    """Reading in runs gives the records that reading one by one gives, and ends at the same place.

    MalformedData comes exactly where that finds a length that cannot be.

    Input: u32 position of the consumer, u16 bytes written behind it, u16 most records a run, then the memory.
    """
    if len(data) < _HEAD.size:
        return
    position, written, most = _HEAD.unpack_from(data)
    consumer = position & ~7
    producer = consumer + (written % (_SIZE + 64) & ~7)
    content = data[_HEAD.size :][:_SIZE].ljust(_SIZE, b"\0") * 2
    memory = memoryview(bytearray(content))
    words = memory.cast("I")
    expected, end, garbled = _one_by_one(content, consumer, producer)
    got: list[bytes] = []
    try:
        while True:
            run = next_run(memory, words, consumer, producer, most)
            if run.position == consumer:
                break
            assert run.position > consumer
            assert run.count <= max(most, 1)
            step = stride(run.length)
            first = run.start + BPF_RINGBUF_HDR_SZ
            got += [bytes(memory[at : at + run.length]) for at in range(first, first + run.count * step, step)]
            consumer = run.position
    except MalformedData:
        assert garbled, "refused what is well-formed"
    else:
        assert not garbled, "read past a garbled header"
    assert (got, consumer) == (expected, end)


def seeds() -> Iterable[bytes]:
    """Equal and unequal records, wrapping around, busy, discarded, garbled."""

    def memory(start: int, *records: tuple[int, int]) -> bytes:
        content = bytearray(_SIZE)
        at = start
        for length, flags in records:
            for index, byte in enumerate(struct.pack("<II", length | flags, 0)):
                content[(at + index) % _SIZE] = byte
            at += stride(length)
        return _HEAD.pack(start, at - start, 7) + bytes(content)

    yield memory(0, (8, 0), (8, 0), (8, 0), (24, 0), (1, 0))
    yield memory(200, *[(8, 0)] * 5, (13, BPF_RINGBUF_DISCARD_BIT), (8, 0), (8, BPF_RINGBUF_BUSY_BIT))
    yield memory(248, (100, 0), (3, 0), (0, 0), (0, 0), (0, 0))
    yield memory(16, (8, 0), (9, 0), (16, BPF_RINGBUF_DISCARD_BIT), (16, 0), (200, 0))
