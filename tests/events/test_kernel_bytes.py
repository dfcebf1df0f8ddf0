"""Ring-buffer memory as the kernel writes it, byte by byte: what the model in the other tests takes from the code."""

from __future__ import annotations

import pytest

from pyebpf.errors import MalformedData
from pyebpf.events.perf_records import PerfBatch, read_records
from pyebpf.events.records import Run, next_run
from pyebpf.uapi.flags import BPF_RINGBUF_HDR_SZ


def memory(*headers: tuple[int, str]) -> tuple[memoryview, memoryview]:
    """64 bytes of data, mapped twice, with these bytes in hex at these places."""
    content = bytearray(64)
    for at, text in headers:
        raw = bytes.fromhex(text)
        content[at : at + len(raw)] = raw
    data = memoryview(content + content)
    return data, data.cast("I")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("05000000", Run(0, 1, 5, 16)),
        ("05000040", Run(0, 0, 5, 16)),  # BPF_RINGBUF_DISCARD_BIT, bit 30
        ("05000080", Run(0, 0, 0, 0)),  # BPF_RINGBUF_BUSY_BIT, bit 31
        ("08000000", Run(0, 1, 8, 16)),
        ("09000000", Run(0, 1, 9, 24)),
    ],
)
def test_one_header(header: str, expected: Run) -> None:
    """Length, bit 30 for given up, bit 31 for not yet finished; the record is padded to 8 bytes."""
    assert next_run(*memory((0, header)), 0, expected.position or 16, 100) == expected
    assert BPF_RINGBUF_HDR_SZ == 8


def test_two_records_are_one_run() -> None:
    """What is exactly used up by two records of one length is read in one step."""
    data, words = memory((0, "08000000"), (16, "08000000"))
    assert next_run(data, words, 0, 32, 100) == Run(0, 2, 8, 32)


def test_a_consumer_ahead_of_the_producer_stays() -> None:
    """Nothing is there, and the position does not go back."""
    assert next_run(*memory(), 16, 8, 100) == Run(0, 0, 0, 16)


def perf(*records: str, size: int = 64, tail: int = 0, written: int | None = None) -> PerfBatch:
    """Records in hex, read from a buffer of `size` bytes."""
    content = bytes.fromhex("".join(records))
    return read_records(memoryview(content.ljust(size, b"\0")), tail, tail + (written or len(content)))


# struct perf_event_header { __u32 type; __u16 misc, size; }, then u32 size and that many bytes.
SAMPLE = "0900000000001800 0c000000 616263646566676869000000"
OTHER = "0500000000000800"  # PERF_RECORD_THROTTLE's number, no body
LOST = "0200000000001800 0700000000000000 1100000000000000"  # id 7, 17 lost


def test_perf_records_byte_by_byte() -> None:
    """A sample, a loss, and a record of its header alone, at the end of what was written."""
    assert perf(SAMPLE, LOST, OTHER) == PerfBatch([b"abcdefghi\0\0\0"], 17, 56)


def test_a_sample_is_as_long_as_it_says() -> None:
    """Bytes of the record behind the sample are not the sample's."""
    assert perf("0900000000001800 04000000 616263646566676869000000").samples == [b"abcd"]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("0900000000002000 04000000 6162636400000000", "a record of 32 bytes where 20 are left"),
        ("0900000000000700", "a record of 7 bytes where 8 are left"),
        ("0900000000000800", "a sample of 8 bytes"),
        ("0900000000001800 0d000000 616263646566676869000000", "a sample of 13 bytes in a record of 24"),
        ("0200000000001000 0700000000000000", "a loss record of 16 bytes"),
        ("05000000", "4 bytes are no record"),
    ],
)
def test_garbled_perf_records(record: str, message: str) -> None:
    """Lengths that lead out of the record or out of what was written are refused."""
    with pytest.raises(MalformedData, match=message):
        perf(record)


def test_more_written_than_the_buffer_holds() -> None:
    """A head further ahead than the buffer is long is not a position."""
    with pytest.raises(MalformedData, match="read to 0, written to 72, 64 bytes in all"):
        perf(size=64, written=72)
