"""Sentences of docs/language.md that no other test is about."""

from __future__ import annotations

import ctypes
import mmap
import os

import pytest

from pyebpf import BPF, CompileError, Struct, array, be16, char, field, kstack, pid, ptr, s64, u8, u32, u64, user
from tests.support.needs import needs

ME = os.getpid()
PAGE = mmap.PAGESIZE


class Fault(Struct):
    address: u64
    ip: u64
    period: u64


class Key(Struct):
    mac: bytes = field(array(u8, 4))


def run(make):
    needs("program:syscall")
    bpf = BPF()
    program = make(bpf)
    with bpf:
        return program.run().value


def test_parameters_at_perf_events():
    """`ip`, `sample_period` and `addr` by name, as `ctx` has them: a page fault has the page's address."""
    bpf = BPF()
    faults = bpf.ringbuf(Fault)

    @bpf.software_event("page_faults", period=1)
    def on_fault(addr, sample_period, ip) -> None:
        if pid() == ME:
            faults.emit(Fault(address=addr, ip=ip, period=sample_period))

    with bpf, mmap.mmap(-1, 7 * PAGE) as memory:
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in range(7):
            memory[page * PAGE] = 1
        touched = [fault for fault in faults.poll(0) if start <= fault.address < start + 7 * PAGE]
        assert [fault.address for fault in touched] == [start + page * PAGE for page in range(7)]
        assert all(fault.ip and fault.period == 1 for fault in touched)


def test_inlined_functions_take_any_number_of_arguments():
    """`*names` is a tuple of them; `**names` only what is known at compile time."""

    def first_and_count(*given):
        return given[0] + 10 * len(given)

    def total(*given, scale=1):
        found = 0
        for each in given:
            found += each * scale
        return found

    def named(**given):
        return given["x"]

    def make(bpf):
        numbers = bpf.array(value=u64)

        @bpf.syscall()
        def program():
            one = s64(numbers[0]) + 1
            return first_and_count(one, 2, 3) + 100 * total(one, one, 3, scale=one + 1) + 10_000 * total()

        return program

    assert run(make) == 31 + 100 * 10

    def refused(bpf):
        @bpf.syscall()
        def program():
            return named(x=pid())

        return program

    with pytest.raises(CompileError, match=r"named\(\): \*\*given can't take values known only at run time: name each"):
        run(refused)


def test_a_function_called_for_each_entry_has_the_context():
    """A word that asks for it, as the call stack does, means the event's.

    Not at syscalls:sys_enter_*: there Linux 6.1 looks for the kernel's stack where user space was left, and finds none.
    """
    needs("helper:for_each_map_elem@raw_tracepoint")
    bpf = BPF()
    table = bpf.hash(key=u32, value=u64)
    stacks = bpf.hash(key=s64, value=u64)

    def note(_key: u32, _value: u64) -> None:
        stacks[kstack()] += 1

    @bpf.raw_tracepoint("sys_enter")
    def on_call() -> None:
        if pid() == ME:
            table.for_each(note)

    with bpf:
        table.update(dict.fromkeys(range(5), 1))
        os.getppid()
        calls = sum(stacks.values())
        assert calls >= 5
        assert calls % 5 == 0
        assert all(bpf.stacks[number] for number in stacks)


def test_memory_of_the_process_as_another_type():
    """`p[i]` of a ptr is what lies there; `user(p, T)` is the same address as a T's."""
    bpf = BPF()
    seen = bpf.array(value=u64, size=3)

    @bpf.tracepoint("syscalls:sys_enter_write")
    def on_write(fd, buf: ptr[u8]) -> None:
        if pid() == ME and fd == 1_000_000:
            seen[0] = buf[2]
            seen[1] = user(buf, u32)[1]
            seen[2] = user(u64(buf) + 1, u32)[0]

    with bpf:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(1_000_000, bytes(range(1, 9)))
        assert list(seen.values()) == [3, 0x08070605, 0x05040302]


def test_arrays_and_strings_as_keys_and_values():
    """What is not a number is a reference to the entry; user space has lists, bytes and str."""
    needs("program:syscall")
    bpf = BPF()
    rows = bpf.hash(key=array(u8, 4), value=array(u64, 4))
    names = bpf.hash(key=be16, value=char[16])

    @bpf.syscall()
    def program():
        key = Key(mac=b"abcd")
        row = rows.get(key.mac)
        name = names.get(80)
        if row is None or name is None:
            return -1
        row[2] += 5
        return row[2] + 100 * len(name)

    with bpf:
        assert program.run().value == -1
        rows[b"abcd"] = [1, 2, 3, 4]
        names[80] = "seventeen bytes"
        assert program.run().value == 8 + 1500
        assert dict(rows.items()) == {b"abcd": [1, 2, 8, 4]}
        assert dict(names.items()) == {80: "seventeen bytes"}
