"""The perf buffer's records: no kernel needed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import MalformedData
from pyebpf.events.perf_records import SAMPLE_HEADER, Uniform, read_backward, read_records, uniform, uniform_backward

SIZE = 512


def sample(content: bytes) -> bytes:
    """PERF_RECORD_SAMPLE with raw data, padded to 8 as the kernel does (the padding is part of the raw size)."""
    padded = content + bytes(-(len(content) + 4) % 8)
    return struct.pack("<IHHI", 9, 0, 12 + len(padded), len(padded)) + padded


def lost(count: int) -> bytes:
    return struct.pack("<IHHQQ", 2, 0, 24, 1, count)


def other() -> bytes:
    """A record that is none of ours (PERF_RECORD_THROTTLE)."""
    return struct.pack("<IHHQ", 5, 0, 16, 0)


def apart(alike: Uniform) -> list[bytes]:
    """The raw data of each."""
    content, length, raw = alike
    return [content[at : at + raw] for at in range(SAMPLE_HEADER, len(content), length)]


def written_backward(records: list[bytes], head: int) -> tuple[memoryview, int]:
    """Memory after these were written, and the newest one's position."""
    memory = bytearray(SIZE)
    for made in records:
        head = head - len(made) & (1 << 64) - 1
        for index, byte in enumerate(made):
            memory[head + index & SIZE - 1] = byte
    return memoryview(memory), head


RECORDS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=40).map(lambda c: ("sample", c)),
        st.integers(1, 99).map(lambda n: ("lost", n)),
        st.just(("other", None)),
    ),
    max_size=8,
)


@given(records=RECORDS, start=st.integers(0, 1 << 33).map(lambda n: n * 8))
def test_samples_and_losses_are_read_across_the_end_of_the_buffer(records, start):
    """Whatever position the first record has, also where one goes on at the buffer's start."""
    memory = bytearray(SIZE)
    made = {"sample": sample, "lost": lost, "other": lambda _: other()}
    content = b"".join(made[kind](value) for kind, value in records)
    for index, byte in enumerate(content):
        memory[(start + index) % SIZE] = byte
    batch = read_records(memoryview(memory), start, start + len(content))
    samples = [value for kind, value in records if kind == "sample"]
    assert [got[: len(value)] for got, value in zip(batch.samples, samples, strict=True)] == samples
    assert batch.lost == sum(value for kind, value in records if kind == "lost")
    assert batch.position == start + len(content)


@given(st.binary(max_size=SIZE))
def test_garbage_ends_in_records_or_an_error(content):
    """Never anything but a result or MalformedData, and in bounded time."""
    memory = content.ljust(SIZE, b"\0")
    try:
        batch = read_records(memoryview(memory), 0, len(content))
    except MalformedData:
        return
    assert sum(map(len, batch.samples)) <= len(content)


def test_positions_that_contradict_each_other_are_an_error():
    """More written than the buffer holds."""
    with pytest.raises(MalformedData, match="garbled"):
        read_records(memoryview(bytes(SIZE)), 0, SIZE + 8)


@given(records=st.lists(st.binary(min_size=1, max_size=40), max_size=40), reads=st.lists(st.integers(1, 9), max_size=6))
def test_a_buffer_written_backward_gives_what_lasted(records, reads):
    """The newest records, the oldest first, each once; what was written over is missing from the front only."""
    memory = bytearray(SIZE)
    head, before, got = 0, 0, []
    pending: list[bytes] = []
    steps = iter(reads)
    until = next(steps, None)
    for content in records:
        made = sample(content)
        head = head - len(made) & (1 << 64) - 1
        for index, byte in enumerate(made):
            memory[head + index & SIZE - 1] = byte
        pending.append(content)
        if until is not None and len(pending) >= until:
            got.append((pending, read_backward(memoryview(memory), before, head)))
            before, pending, until = head, [], next(steps, None)
    got.append((pending, read_backward(memoryview(memory), before, head)))
    for wanted, batch in got:
        assert len(batch.samples) <= len(wanted)
        last = wanted[len(wanted) - len(batch.samples) :]
        assert [sent[: len(content)] for sent, content in zip(batch.samples, last, strict=True)] == last
        if sum(len(sample(content)) for content in wanted) <= SIZE:
            assert len(batch.samples) == len(wanted)
            assert batch.lost == 0


@pytest.mark.parametrize("count", [12, 13, 29, 101])
def test_what_was_written_over_is_counted_for_records_of_one_size(count):
    """Read and lost are all that was sent."""
    memory, head = written_backward([sample(number.to_bytes(8, "little") * 4) for number in range(count)], 0)
    batch = read_backward(memory, 0, head)
    assert len(batch.samples) + batch.lost == count


@given(
    length=st.integers(1, 40),
    count=st.integers(0, 12),
    start=st.integers(0, 1 << 33).map(lambda n: n * 8),
    odd=st.one_of(st.none(), st.sampled_from([lost(3), other(), sample(bytes(41))])),
)
def test_samples_of_one_length_are_seen_as_such(length, count, start, odd):
    """The fast way gives what the slow one does, and only where all are alike."""
    contents = [number.to_bytes(1, "little") * length for number in range(count)]
    data = (odd or b"") + b"".join(map(sample, contents))
    if len(data) > SIZE:
        return
    memory = bytearray(SIZE)
    for index, byte in enumerate(data):
        memory[(start + index) % SIZE] = byte
    found = uniform(memoryview(memory), start, len(data))
    slow = read_records(memoryview(memory), start, start + len(data))
    if found is None:
        assert odd is not None or count == 0
        return
    assert len(found.content) == len(data)
    assert apart(found) == slow.samples
    assert slow.lost == 0


def test_a_last_sample_of_another_length_is_not_left_out():
    """They have to be read one by one then."""
    data = sample(bytes(33)) + sample(bytes(9))
    memory = data.ljust(SIZE, b"\0")
    assert uniform(memoryview(memory), 0, len(data)) is None


RAW_12, RAW_8 = (struct.pack("<IHHI12s", 9, 0, 24, raw, b"abcdefgh") for raw in (12, 8))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (RAW_12 + RAW_8, "as long, but with less in it"),
        (RAW_12 + struct.pack("<IHHQQ", 2, 0, 24, 12, 5), "a loss whose id is the other's size"),
        (RAW_12 + RAW_12[:16], "the last one cut off"),
        (struct.pack("<IHHI12x", 9, 0, 24, 13), "more in it than it has room for"),
        (struct.pack("<IHHI12x", 9, 0, 28, 8), "not a multiple of 8"),
        (RAW_12[:8], "a header"),
        (b"", "nothing"),
    ],
)
def test_what_is_not_alike(data, why):
    """Each of these has to be looked at one by one."""
    assert uniform(memoryview(data.ljust(SIZE, b"\0")), 0, len(data)) is None, why


@given(most=st.integers(1, SIZE), count=st.integers(1, 10), start=st.integers(0, 1 << 33).map(lambda n: n * 8))
def test_pieces_of_samples_of_one_length_end_between_samples(most, count, start):
    """One after the other they are all of them; a piece is at least one sample."""
    made = [sample(number.to_bytes(24, "little")) for number in range(count)]
    memory = bytearray(SIZE)
    for index, byte in enumerate(b"".join(made)):
        memory[(start + index) % SIZE] = byte
    position, left, got = start, len(made[0]) * count, b""
    while left:
        found = uniform(memoryview(memory), position, left, most=most)
        assert found is not None
        assert len(found.content) <= max(most, found.length)
        assert len(found.content) > most - found.length or len(found.content) == left
        got += found.content
        position += len(found.content)
        left -= len(found.content)
    assert got == b"".join(made)


@pytest.mark.parametrize("most", [1, 3, 256])
@pytest.mark.parametrize("size", [8, 24, 99])
@pytest.mark.parametrize("count", [1, 2, 12, 13, 29, 101])
def test_samples_of_one_length_are_counted_as_they_are_one_by_one(count, size, most):
    """Read, lost, and in pieces of so many."""
    memory, head = written_backward([sample(number.to_bytes(size, "little")) for number in range(count)], 0)
    found = uniform_backward(memory, 0, head, most)
    slow = read_backward(memory, 0, head)
    assert found is not None
    assert ([raw for piece in found[0] for raw in apart(piece)][::-1], found[1]) == (slow.samples, slow.lost)
    assert len(slow.samples) + slow.lost == count


def test_a_piece_of_another_length_is_seen():
    """Three of 24 bytes, and behind them one of three times 24."""
    memory, head = written_backward([sample(bytes(60)), *[RAW_12] * 3], 0)
    assert uniform_backward(memory, 0, head, 3) is None
    assert [len(raw) for raw in read_backward(memory, 0, head).samples] == [60, 12, 12, 12]


def test_a_newest_record_longer_than_the_buffer_is_no_loss():
    """It is garbage: nothing is known of how many there were."""
    memory = struct.pack("<IHHI", 9, 0, SIZE + 8, 8).ljust(SIZE, b"\0")
    assert uniform_backward(memoryview(memory), 2 * SIZE, 0, 3) is None


@given(
    sizes=st.lists(st.sampled_from([9, 24]), max_size=40) | st.lists(st.just(24), max_size=40),
    head=st.integers(0, (1 << 61) - 1).map(lambda n: n * 8),
    most=st.integers(1, 9),
)
def test_samples_of_one_length_written_backward_are_seen_as_such(sizes, head, most):
    """The fast way gives what the slow one does: the oldest first, what was written over counted."""
    before = head
    memory, head = written_backward(
        [sample(number.to_bytes(size, "little")) for number, size in enumerate(sizes)], head
    )
    slow = read_backward(memory, before, head)
    found = uniform_backward(memory, before, head, most)
    if found is None:
        assert not slow.samples or len(set(map(len, slow.samples))) > 1
        return
    pieces, lost = found
    assert [len(piece.content) // piece.length for piece in pieces[:-1]] == [most] * (len(pieces) - 1)
    assert ([raw for piece in pieces for raw in apart(piece)][::-1], lost) == (slow.samples, slow.lost)


@given(st.binary(max_size=SIZE))
def test_garbage_is_alike_or_not_but_no_crash(content):
    """Bytes of any kind."""
    memory = content.ljust(SIZE, b"\0")
    found = uniform(memoryview(memory), 0, len(content) & ~7)
    assert found is None or len(found.content) % found.length == 0
    backward = uniform_backward(memoryview(memory), 2 * SIZE, len(content) & ~7, 3)
    assert backward is None or all(len(piece.content) % piece.length == 0 for piece in backward[0])
