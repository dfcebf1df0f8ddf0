"""The memory of a perf buffer."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData
from pyebpf.events.perf_records import SAMPLE_HEADER, read_backward, read_records, uniform, uniform_backward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.events.perf_records import Uniform

COVERS = ("pyebpf/events/perf_records.py",)
TEXT = False
DICTIONARY = (b"\x09\0\0\0\0\0\x10\0", b"\x02\0\0\0\0\0\x18\0", b"\x08\0", b"\xff\xff", b"\0\0\0\0")
_SIZE = 256
_WORD = (1 << 64) - 1
_HEAD = struct.Struct("<IH")


def target(data: bytes) -> None:
    """All records are read, or MalformedData; the same memory turned around its end gives the same.

    So does reading samples of one length all at once. Read backward, the same memory gives samples or MalformedData.

    Input: u32 position of the reader, u16 bytes written behind it, then the memory as if read from its start.
    """
    if len(data) < _HEAD.size:
        return
    tail, written = _HEAD.unpack_from(data)
    written %= _SIZE + 64
    content = data[_HEAD.size :][:_SIZE].ljust(_SIZE, b"\0")
    outcomes = []
    for position in (0, tail):
        turn = position % _SIZE
        turned = content[_SIZE - turn :] + content[: _SIZE - turn]
        try:
            batch = read_records(memoryview(turned), position, position + written)
        except MalformedData as error:
            outcomes.append(str(error) if written <= _SIZE else "")
        else:
            assert batch.position == position + written
            assert sum(map(len, batch.samples)) <= written
            outcomes.append(repr((batch.samples, batch.lost)))
            _check_uniform(turned, position, written, batch.samples)
    assert outcomes[0] == outcomes[1]
    with suppress(MalformedData):
        backward = read_backward(memoryview(content), tail + written & _WORD, tail)
        assert sum(map(len, backward.samples)) <= min(written, _SIZE)
        alike = uniform_backward(memoryview(content), tail + written & _WORD, tail, 3)
        if alike is not None:
            raws = [raw for piece in alike[0] for raw in _raw(piece)]
            assert (raws[::-1], alike[1]) == (backward.samples, backward.lost)


def _check_uniform(data: bytes, position: int, written: int, samples: list[bytes]) -> None:
    """Samples taken apart all at once are those that one after the other gives."""
    found = uniform(memoryview(data), position, written)
    if found is not None:
        assert _raw(found) == samples


def _raw(alike: Uniform) -> list[bytes]:
    content, length, raw = alike
    return [content[at : at + raw] for at in range(SAMPLE_HEADER, len(content), length)]


def seeds() -> Iterable[bytes]:
    """Samples and losses, whole and cut."""
    sample = struct.pack("<IHHI", 9, 0, 24, 12) + b"123456789abc"
    loss = struct.pack("<IHHQQ", 2, 0, 24, 1, 17)
    other = struct.pack("<IHHQ", 5, 0, 16, 0)
    for records in (sample * 3, sample + loss + other + sample, loss, sample[:20], other + b"\x01"):
        yield _HEAD.pack(248, len(records)) + records
        yield _HEAD.pack(0, len(records)) + records
