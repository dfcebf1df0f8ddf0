"""Maps found in maps of maps, in programs written in Python, in the kernel and in the interpreter."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, Struct, u32, u64
from pyebpf.errors import InvalidValue
from tests.support.simulated import simulated
from tests.support.system_calls import NO_PROCESS, getpgid


class Entry(Struct):
    count: u64
    last: u32


def sharded() -> BPF:
    """Counts in one of several tables, by the number; what has no table is counted in `missing`."""
    bpf = BPF()
    first = bpf.hash(key=u32, value=u64, size=7, name="first")
    second = bpf.hash(key=u32, value=u64, size=7, name="second")
    tables = bpf.array_of_maps(first, size=3, name="tables")
    missing = bpf.array(value=u64, name="missing")

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            table = tables.get(pid % 5)
            if table is None:
                missing[0] += 1
                return
            if u32(pid - NO_PROCESS) in table:
                table[1000] += 1
            table[pid - NO_PROCESS] += 1
            value = table.get(1001)
            if value is not None:
                table[1001] = value + 2
                del table[1002]

    assert second is bpf["second"]
    return bpf


def fill(bpf: BPF) -> None:
    """NO_PROCESS % 5 is 4: numbers 1, 2, 3 have the tables 0, 1, 2; 0 and 4 have indices out of range."""
    bpf["tables"][0] = bpf["first"]
    bpf["tables"][1] = bpf["second"]
    bpf["second"][1001] = 1
    bpf["second"][1002] = 1


def expected(bpf: BPF) -> None:
    assert dict(bpf["first"].items()) == {1: 3, 6: 1, 1000: 2}
    assert dict(bpf["second"].items()) == {2: 2, 1000: 1, 1001: 5}
    assert bpf["missing"][0] == 5
    assert list(bpf["tables"]) == [0, 1]


def test_each_event_goes_to_the_map_that_its_key_finds():
    """Counts, assignments, deletions and membership in the inner maps are theirs alone."""
    bpf = sharded()
    with bpf:
        fill(bpf)
        getpgid(1, 1, 1, 6, 2, 2, 3, 3, 3, 0, 4)
        expected(bpf)
        assert not bpf.dropped


def test_the_interpreter_agrees():
    """The same program, the same counts."""
    bpf = sharded()
    with simulated(bpf) as kernel:
        fill(bpf)
        for number in (1, 1, 1, 6, 2, 2, 3, 3, 3, 0, 4):
            kernel.tracepoint("syscalls:sys_enter_getpgid", pid=NO_PROCESS + number)
        expected(bpf)
        assert bpf["tables"][1][2] == 2


def test_maps_are_made_and_replaced_while_programs_run():
    """By any key; a map that is full loses what it loses under the outer map's name."""
    bpf = BPF()
    shape = bpf.hash(key=u32, value=Entry, size=5)
    tables = bpf.hash_of_maps(shape, key=u64, size=11, name="tables")

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            table = tables.get(pid % 2 + (1 << 40))
            if table is not None:
                entry = table.get(pid - NO_PROCESS)
                if entry is None:
                    table[pid - NO_PROCESS] = Entry(count=1, last=2)
                else:
                    entry.count += 1
                    entry.last = 7

    with bpf, tables.make() as even, tables.make() as odd:
        tables[1 << 40] = even
        getpgid(*range(10))
        assert {key: (entry.count, entry.last) for key, entry in even.items()} == dict.fromkeys(range(0, 10, 2), (1, 2))
        tables[(1 << 40) + 1] = odd
        getpgid(*range(17), 3)
        assert len(odd) == 5
        assert (odd[3].count, odd[3].last) == (2, 7)
        assert bpf.dropped == {"tables[…]: map full": 4 + 3}
        assert tables.ids().keys() == {1 << 40, (1 << 40) + 1}
        with tables[1 << 40] as again:
            assert len(again) == 5
        del tables[1 << 40]
        getpgid(2)
        assert even[2].count == 2


def test_queues_and_arrays_are_found_as_well():
    """An array's entries exist once the array was found."""
    bpf = BPF()
    numbers = bpf.array(value=u64, size=4, name="numbers")
    work = bpf.queue(u32, size=3, name="work")
    arrays = bpf.array_of_maps(numbers, size=1, name="arrays")
    queues = bpf.array_of_maps(work, size=1, name="queues")

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def on_getpgid(pid: int) -> None:
        if pid >= NO_PROCESS:
            found = arrays.get(0)
            if found is not None:
                found[0] += 1
                found[3] = found[0] * 2
            queue = queues.get(0)
            if queue is not None:
                queue.push(pid - NO_PROCESS)

    with bpf:
        getpgid(1)
        arrays[0] = numbers
        queues[0] = work
        getpgid(2, 3, 4, 5, 6)
        assert list(numbers.values()) == [5, 0, 0, 10]
        assert work.drain() == [2, 3, 4]
        assert bpf.dropped == {"queues[…]: map full": 2}


def test_what_was_not_tested_for_none_is_refused():
    """As of any look-up; and only user space changes the outer map."""
    bpf = BPF()
    shape = bpf.hash(key=u32, value=u64)
    tables = bpf.array_of_maps(shape, size=3, name="tables")
    probe = bpf.tracepoint("syscalls:sys_enter_getpgid")

    def refused(function: object, message: str) -> None:
        bpf.probes.clear()
        probe(function)
        with pytest.raises(CompileError, match=message):
            bpf.specs()

    def unchecked(pid: int) -> None:
        tables.get(0)[1] += 1

    def by_item(pid: int) -> None:
        tables[pid][1] += 1

    def written(pid: int) -> None:
        tables[0] = shape

    def outside(pid: int) -> None:
        if tables.get(3) is None:
            return

    refused(unchecked, r"tables\.get\(…\) may be None")
    refused(by_item, r"tables\[k\] may be missing: write tables\.get\(k\)")
    refused(written, "user space inserts and removes them")
    refused(outside, "index 3 is outside the map tables, which has 3 entries")
    with pytest.raises(InvalidValue, match="shape is a declared map"):
        bpf.array_of_maps(u64, size=1)
