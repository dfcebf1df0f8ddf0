"""Queues, filters, tries, perf buffers, mapped arrays in programs written in Python."""

from __future__ import annotations

import os
from struct import pack

import construct
import pytest

from pyebpf import BPF, CompileError, Struct, char, comm, field, pid, u8, u32, u64
from pyebpf.types import S32, type_of
from pyebpf.types.prefix import ipv4_prefix, ipv6_prefix
from tests.support.needs import needs

ME = os.getpid()


class Item(Struct):
    number: u32
    name: str = field(char[16])


def gets(times: int) -> None:
    """This process's own event, an exact number of times."""
    for _ in range(times):
        os.getppid()


def test_a_probe_pushes_and_user_space_pops():
    """In order; what finds no room is counted."""
    bpf = BPF()
    numbers = bpf.queue(u64, size=17)
    items = bpf.stack(Item, size=17)
    count = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        if pid() == ME:
            count[0] += 1
            numbers.push(count[0])
            items.push(Item(u32(count[0]), comm()))

    with bpf:
        gets(23)
        assert numbers.peek() == 1
        assert [numbers.pop() for _ in range(17)] == list(range(1, 18))
        assert numbers.pop() is None
        taken = items.drain()
        assert [item.number for item in taken] == list(range(17, 0, -1))
        assert {item.name for item in taken} != {""}
        assert sum(bpf.dropped.values()) == 12
        assert {reason.split(":")[-1].strip() for reason in bpf.dropped} != set()


def test_a_probe_pops_what_user_space_pushed():
    """None when empty; a peek leaves it."""
    bpf = BPF()
    work = bpf.queue(Item, size=7)
    signed = bpf.queue(S32, size=7)
    done = bpf.hash(key=u32, value=u64)
    empty = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        if pid() != ME:
            return
        number = signed.peek()
        if number is not None and number < 0:
            done[u32(0 - number)] += 1000
        signed.pop()
        item = work.pop()
        if item is None:
            empty[0] += 1
            return
        done[item.number] += 1

    with bpf:
        for number in (3, 5, 3):
            work.push(Item(number, "x"))
        signed.push(-7)
        signed.push(9)
        gets(5)
        assert dict(done.items()) == {3: 2, 5: 1, 7: 1000}
        assert empty[0] == 2
        assert signed.pop() is None


def test_a_pop_that_may_be_none_must_be_checked():
    """As of every look-up."""
    bpf = BPF()
    work = bpf.queue(u64)
    out = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        out[0] = work.pop()

    with pytest.raises(CompileError, match="may be None"):
        bpf.specs()


def test_a_filter_is_asked_on_both_sides():
    """What user space added a probe finds, and the other way round."""
    needs("map:bloom_filter")
    bpf = BPF()
    wanted = bpf.bloom_filter(u32, size=101)
    hits = bpf.array(value=u64, size=2)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        if pid() == ME:
            if pid() in wanted:
                hits[0] += 1
            else:
                hits[1] += 1
                wanted.add(pid())

    with bpf:
        gets(11)
        assert (hits[0], hits[1]) == (10, 1)
        assert ME in wanted
        assert sum(number in wanted for number in range(1 << 30, (1 << 30) + 1009)) < 101


def test_a_probe_looks_addresses_up_in_a_trie():
    """Numbers for IPv4, bytes for IPv6."""
    bpf = BPF()
    routes = bpf.lpm_trie(key=ipv4_prefix, value=u32)
    wide = bpf.lpm_trie(key=ipv6_prefix, value=u32)
    asked = bpf.array(value=u32, size=3)
    found = bpf.array(value=u32, size=3)
    sixteen = bpf.array(value=type_of(u8)[16])

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        if pid() == ME:
            found[0] = routes.get(asked[0], 99)
            found[1] = routes.get(0x7F000001, 98)
            found[2] = wide.get(sixteen[0], 97)

    with bpf:
        routes.update({"10.0.0.0/8": 8, "10.1.0.0/16": 16})
        wide["2001:db8::/32"] = 32
        sixteen[0] = bytes.fromhex("20010db8000000000000000000000001")
        asked[0] = 0x0A010203
        gets(1)
        assert list(found.values()) == [16, 98, 32]
        asked[0] = 0x0A020203
        routes["127.0.0.0/8"] = 127
        gets(1)
        assert list(found.values()) == [8, 127, 32]


class Event(Struct):
    at: u64
    pid: u32
    name: str = field(char[16])


@pytest.mark.parametrize("overwrite", [False, True])
def test_perf_buffers_carry_records(overwrite):
    """101 records, all of them; the padding is zeros."""
    bpf = BPF()
    events = bpf.perf_buffer(Event, pages=4, overwrite=overwrite)
    count = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        if pid() == ME:
            count[0] += 1
            events.emit(Event(at=count[0], pid=pid(), name="probe"))

    with bpf:
        gets(101)
        got = events.poll(5)
        assert sorted(event.at for event in got) == list(range(1, 102))
        assert {(event.pid, event.name) for event in got} == {(ME, "probe")}
        assert bpf.dropped == {}
        assert sum(events.lost_per_cpu.values()) == 0


def test_a_perf_buffer_without_room_is_a_loss():
    """Read and lost are all."""
    bpf = BPF()
    events = bpf.perf_buffer(Event, pages=1)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        if pid() == ME:
            events.emit(Event(at=1, pid=pid(), name="x"))

    with bpf:
        gets(1009)
        assert len(events.poll(0)) + sum(bpf.dropped.values()) == 1009
        assert [reason for reason in bpf.dropped if "perf buffer full" in reason]


def test_a_perf_buffer_takes_its_own_records_only():
    """The message names the type."""
    bpf = BPF()
    events = bpf.perf_buffer(Event)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        events.emit(Item(1, "x"))

    with pytest.raises(CompileError, match="takes Event records"):
        bpf.specs()


def test_a_mappable_array_is_read_without_system_calls():
    """The probe's counts, live."""
    bpf = BPF()
    counts = bpf.array(value=u64, size=3, mappable=True)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        if pid() == ME:
            counts[1] += counts[2]

    with bpf:
        window = counts.window()
        window[2] = 3
        for round_ in range(1, 8):
            gets(1)
            assert window[1] == 3 * round_


def test_construct_types_are_bytes_to_a_probe():
    """Stored and found, no fields: reading them is refused with what to write."""
    bpf = BPF()
    shaped = bpf.hash(key=u32, value=construct.Struct("a" / construct.Int16ub, "b" / construct.Int16ub))

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def enter() -> None:
        if pid() == ME and 1 not in shaped:
            shaped[1] = b"\x01\x02\x03\x04"

    with bpf:
        gets(1)
        assert shaped[1] == {"a": 0x102, "b": 0x304}
        shaped[2] = {"a": 1, "b": 2}
        assert {key: pack(">HH", value.a, value.b) for key, value in shaped.items()} == {
            1: b"\1\2\3\4", 2: b"\0\1\0\2",
        }  # fmt: skip

    reading = BPF()
    other = reading.hash(key=u32, value=construct.Int16ub)

    @reading.tracepoint("syscalls:sys_enter_getppid")
    def read() -> None:
        other.get(1)

    with pytest.raises(CompileError, match="declare a Struct"):
        reading.specs()
