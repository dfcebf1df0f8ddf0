"""The ring buffer's memory against a model of the kernel's writer: no kernel needed."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyebpf.errors import MalformedData
from pyebpf.events.records import mixed_records, next_run, stride
from pyebpf.uapi.flags import BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT, BPF_RINGBUF_HDR_SZ

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 256


class Writer:
    """Reserve, submit and discard as kernel/bpf/ringbuf.c does, in memory that is mapped again behind its end."""

    def __init__(self, start: int = 0, again: int = SIZE) -> None:
        self.memory = bytearray(SIZE + again)
        self.producer = self.consumer = start
        self.data = memoryview(self.memory)
        self.words = self.data.cast("I")

    def put(self, at: int, content: bytes) -> None:
        for index, byte in enumerate(content):
            place = (at + index) % SIZE
            self.memory[place] = byte
            if place + SIZE < len(self.memory):
                self.memory[place + SIZE] = byte

    def reserve(self, length: int) -> int | None:
        at = self.producer
        if at + stride(length) - self.consumer > SIZE - 1:
            return None
        self.put(at, struct.pack("<II", length | BPF_RINGBUF_BUSY_BIT, at >> 12))
        self.producer += stride(length)
        return at

    def finish(self, at: int, content: bytes, *, discard: bool = False) -> None:
        self.put(at + BPF_RINGBUF_HDR_SZ, content)
        self.put(at, struct.pack("<I", len(content) | (BPF_RINGBUF_DISCARD_BIT if discard else 0)))


def read_all(writer: Writer, most: int = 1 << 16) -> list[bytes]:
    """What a reader gets, with the consumer's position moved."""
    records = []
    while True:
        run = next_run(writer.data, writer.words, writer.consumer, writer.producer, most)
        if run.position == writer.consumer:
            return records
        step = stride(run.length)
        first = run.start + BPF_RINGBUF_HDR_SZ
        records += [bytes(writer.data[at : at + run.length]) for at in range(first, first + run.count * step, step)]
        writer.consumer = run.position


def read_mixed(writer: Writer, most: int) -> list[bytes]:
    """The same, record by record."""
    records: list[bytes] = []
    while True:
        found, position = mixed_records(writer.data, writer.words, writer.consumer, writer.producer, most)
        assert len(found) <= most
        if position == writer.consumer:
            return records
        records += found
        writer.consumer = position


class RingMachine(RuleBasedStateMachine):
    """Several reservations open at once, finished in any order, read whenever."""

    again = SIZE

    def __init__(self) -> None:
        super().__init__()
        self.writer = Writer(SIZE * 8 - 16, self.again)
        self.open: dict[int, int] = {}
        self.expected: deque[tuple[int, bytes | None]] = deque()
        self.contents: dict[int, bytes | None] = {}
        self.got: list[bytes] = []
        self.serial = 0

    @rule(length=st.sampled_from([1, 7, 8, 12, 12, 12, 40]))
    def reserve(self, length: int) -> None:
        at = self.writer.reserve(length)
        if at is not None:
            self.open[at] = length
            self.expected.append((at, None))

    @rule(which=st.integers(0, 50), discard=st.booleans())
    def finish(self, which: int, discard: bool) -> None:
        if self.open:
            at = sorted(self.open)[which % len(self.open)]
            length = self.open.pop(at)
            self.serial += 1
            content = (self.serial.to_bytes(2, "little") * length)[:length]
            self.writer.finish(at, content, discard=discard)
            self.contents[at] = None if discard else content

    @rule(most=st.sampled_from([1, 2, 1 << 16]), read=st.sampled_from([read_all, read_mixed]))
    def read(self, most: int, read: Callable[[Writer, int], list[bytes]]) -> None:
        wanted = []
        while self.expected and self.expected[0][0] not in self.open:
            content = self.contents.pop(self.expected.popleft()[0])
            if content is not None:
                wanted.append(content)
        assert read(self.writer, most) == wanted

    @invariant()
    def reader_stops_at_the_first_open_record(self) -> None:
        if self.open:
            assert self.writer.consumer <= min(self.open)


class OneRecordMachine(RingMachine):
    """As much mapped again as the longest record needs."""

    again = stride(40)


TestRing = RingMachine.TestCase
TestOneRecord = OneRecordMachine.TestCase


def test_long_runs_are_found_to_their_end():
    """However far the first looks go: as many records as there are, and no more."""
    writer = Writer()
    memory = bytearray(1 << 16)
    writer.data, writer.words = memoryview(memory), memoryview(memory).cast("I")
    for count in (1, 15, 16, 17, 143, 144, 145, 1000):
        for number in range(count):
            memory[16 * number : 16 * number + 4] = struct.pack("<I", 8)
        memory[16 * count : 16 * count + 4] = struct.pack("<I", 4)
        run = next_run(writer.data, writer.words, 0, 1 << 15, 1 << 16)
        assert (run.count, run.length) == (count, 8)
        assert next_run(writer.data, writer.words, 0, 1 << 15, 10).count == min(count, 10)


def test_an_empty_buffer_has_nothing():
    """Equal positions: no record, and the position stays."""
    writer = Writer()
    assert next_run(writer.data, writer.words, 0, 0, 10).position == 0


def test_records_of_equal_length_come_in_one_run():
    """The fast path: one run for all, up to the limit that was asked for."""
    writer = Writer()
    for number in range(7):
        writer.finish(writer.reserve(8), number.to_bytes(8, "little"))
    run = next_run(writer.data, writer.words, 0, writer.producer, 100)
    assert (run.count, run.length, run.position) == (7, 8, 7 * 16)
    assert next_run(writer.data, writer.words, 0, writer.producer, 3).count == 3


def test_a_run_ends_where_the_second_copy_does():
    """Of a record that is only begun in it, the reader has the rest when it begins anew."""
    writer = Writer(start=SIZE - 32, again=24)
    for number in range(4):
        writer.finish(writer.reserve(8), number.to_bytes(8, "little"))
    run = next_run(writer.data, writer.words, SIZE - 32, writer.producer, 100)
    assert (run.start, run.count, run.position) == (SIZE - 32, 3, SIZE + 16)
    assert next_run(writer.data, writer.words, run.position, writer.producer, 100).count == 1


def test_a_run_ends_before_a_busy_a_discarded_and_a_longer_record():
    """Each of the three ends the run of those before."""
    for kind in ("busy", "discarded", "longer"):
        writer = Writer()
        for number in range(3):
            writer.finish(writer.reserve(8), number.to_bytes(8, "little"))
        at = writer.reserve(16 if kind == "longer" else 8)
        if kind != "busy":
            writer.finish(at, bytes(16 if kind == "longer" else 8), discard=kind == "discarded")
        assert next_run(writer.data, writer.words, 0, writer.producer, 100).count == 3


@pytest.mark.parametrize(
    ("header", "written"), [(0x0FFF_FFF0, 16), (9, 16), (8, SIZE * 2)], ids=["huge", "too-long", "overrun"]
)
def test_a_garbled_header_is_an_error_not_a_loop(header, written):
    """A length beyond what was written, or positions further apart than the buffer is large."""
    writer = Writer()
    writer.put(0, struct.pack("<II", header, 0))
    with pytest.raises(MalformedData, match="garbled"):
        next_run(writer.data, writer.words, 0, written, 100)


def test_positions_far_beyond_32_bits():
    """Positions count bytes ever written, and wrap only in the data."""
    writer = Writer(start=(1 << 40) + 248)
    writer.finish(writer.reserve(12), b"across an en")
    assert read_all(writer) == [b"across an en"]


def test_a_record_beyond_what_was_written_is_garbled():
    """By either way of reading."""
    writer = Writer()
    writer.put(0, struct.pack("<I", 64))
    for read in (next_run, mixed_records):
        with pytest.raises(MalformedData, match="a record of 64 bytes at position 0, written up to 16"):
            read(writer.data, writer.words, 0, 16, 10)
