"""Dynptrs: records of lengths that the event decides, packets and entries by offsets that the kernel checks."""

from __future__ import annotations

import struct

import pytest

from pyebpf import BPF, Struct, dynptr, field, u8, u16, u32, u64
from tests.support.needs import needs
from tests.support.refused import compile_error


class Head(Struct):
    number: u32
    length: u32


class Asked(Struct):
    number: u32
    length: u32
    answer: u64 = 0


class Memory(Struct):
    first: u64 = 0
    rest: bytes = field(u8[56], default=bytes(56))


def test_records_of_any_length():
    """Of 31 records each has the length that was asked for; without room one is lost, counted, and nothing is sent."""
    needs("helper:ringbuf_reserve_dynptr@syscall")
    bpf = BPF()
    events = bpf.byte_ring(size=4096)

    @bpf.syscall(Asked)
    def send(ctx):
        with events.reserve(max(8, min(ctx.length, 4000))) as data:
            wrote = data.write(0, Head(number=ctx.number, length=ctx.length))
            if not wrote:
                return -1
            head = data.at(0, Head)
            if head is not None:
                head.number += 1000
            if data.write(ctx.length - 1, 7, u8):
                return 1
        return 0

    with bpf:
        for number in range(31):
            assert send.run(Asked(number, 8 + number)).value == 1
        records = events.poll()
        assert [len(record) for record in records] == [8 + number for number in range(31)]
        for number, record in enumerate(records):
            found, length = struct.unpack_from("=II", record)
            assert (found & 0xFFFFFF, length & 0xFFFFFF) == (1000 + number, 8 + number)
            assert record[-1] == 7
        assert send.run(Asked(1, 4000)).value == 1
        assert send.run(Asked(2, 4000)).value == -1  # nothing lies inside what was not given
        assert sum(bpf.dropped.values()) == 1
        assert "events: ring buffer full" in bpf.dropped
        assert [len(record) for record in events.poll()] == [4000]
        assert send.run(Asked(3, 8)).value == 1
        assert len(events.poll()) == 1


@pytest.mark.parametrize(
    ("size", "most", "piece"), [(4096, 1000, 64), (1 << 16, 40_000, 1000), (1 << 20, 1_000_000, 4000)]
)
def test_records_show_nothing_of_earlier_ones(size, most, piece):
    """What a probe does not write of a reservation is zero, wherever in the ring's memory it lies."""
    needs("helper:ringbuf_reserve_dynptr@syscall")
    bpf = BPF()
    events = bpf.byte_ring(size=size)

    @bpf.syscall(Asked)
    def fill(ctx):
        with events.reserve(piece) as data:
            for at in range(0, piece, 8):
                data.write(at, 0xFFFF_FFFF_FFFF_FFFF, u64)
        return 0

    @bpf.syscall(Asked)
    def send(ctx):
        with events.reserve(max(1, min(ctx.length, most))) as data:
            data.write(0, 7, u8)
        return 0

    def filled():
        for _ in range(size // (piece + 8)):
            fill.run(Asked(0, 0))
        assert set(b"".join(events.poll())) == {0xFF}

    with bpf:
        lengths = [1, 2, 7, 8, 9, 63, 64, 65, 999, 4095, 4096, 4097, 20_000, most - 1, most]
        for length in sorted(n for n in set(lengths) if n <= most):
            filled()
            send.run(Asked(0, length))
            (record,) = events.poll()
            assert record == b"\7".ljust(length, b"\0")
        assert not bpf.dropped


def test_an_entry_as_memory():
    """A map's entry is read and written at offsets of the caller's; beyond its end there is nothing."""
    needs("helper:dynptr_from_mem@syscall")
    bpf = BPF()
    memory = bpf.array(value=Memory)

    @bpf.syscall(Asked)
    def use(ctx):
        entry = memory[0]
        view = dynptr(entry)
        before = view.read(ctx.number, u16)
        if before is None:
            return -1
        ctx.answer = before
        if not view.write(ctx.number, before + 1, u16):
            return -2
        return 0

    with bpf:
        for _ in range(13):
            assert use.run(Asked(10, 0)).value == 0
        assert use.run(Asked(10, 0)).record.answer == 13
        assert struct.unpack_from("=H", memory[0].rest, 2) == (14,)
        assert use.run(Asked(62, 0)).value == 0
        assert use.run(Asked(63, 0)).value == -1
        assert use.run(Asked(1 << 31, 0)).value == -1


def test_a_packet():
    """A byte at any offset of a packet is read, and one beyond its end is None."""
    needs("kfunc:bpf_dynptr_from_skb")
    bpf = BPF()
    where = bpf.array(value=u64)

    @bpf.cgroup_skb_egress()
    def look(ctx):
        found = dynptr(ctx).read(where[0], u8)
        if found is None:
            return 2
        return found & 1

    with bpf:
        packet = bytes(14) + bytes([0x45]) + bytes(range(1, 100))
        for offset in (1, 2, 50, 97):
            where[0] = offset
            # The packet begins behind the Ethernet header.
            assert look.program.test_run(data=packet).retval == packet[14 + offset] & 1
        where[0] = 100
        assert look.program.test_run(data=packet).retval == 2


def test_refusals():
    """A size that may be 0 or too large, reading what may be None, memory that is none."""
    needs("helper:dynptr_from_mem@syscall")

    def refusal(make):
        bpf = BPF()
        make(bpf, bpf.byte_ring(size=4096), bpf.hash(key=u32, value=Memory))
        return compile_error(bpf.specs)

    def size(bpf, events, memory):
        @bpf.syscall(Asked)
        def send(ctx):
            with events.reserve(ctx.length):
                return 0

    assert refusal(size).startswith("reserve(n) takes 1 to 4095 bytes, and this number is not known to be one")

    def without(bpf, events, memory):
        @bpf.syscall(Asked)
        def send(ctx):
            events.reserve(8).write(0, 5, u8)
            return 0

    assert "a reservation in events: write `with events.reserve(n) as data:`" in refusal(without)

    def unchecked(bpf, events, memory):
        @bpf.syscall(Asked)
        def send(ctx):
            with events.reserve(8) as data:
                head = data.at(0, Head)
                head.number = 1
            return 0

    assert "may be None: test it with `is None` first" in refusal(unchecked)

    def missing(bpf, events, memory):
        @bpf.syscall(Asked)
        def send(ctx):
            dynptr(memory.get(5))
            return 0

    assert "may be None: test it with `is None` first" in refusal(missing)

    def number(bpf, events, memory):
        @bpf.syscall(Asked)
        def send(ctx):
            dynptr(ctx.length)
            return 0

    assert refusal(number).startswith("dynptr() takes the packet's context or a map's entry that is a record")

    def untyped(bpf, events, memory):
        @bpf.syscall(Asked)
        def send(ctx):
            with events.reserve(8) as data:
                data.write(0, 5)
            return 0

    assert refusal(untyped).startswith("write(offset, 5): say what it is written as, write(offset, value, u32)")
