"""Arenas: memory that programs and Python share, every change by either seen by the other."""

from __future__ import annotations

import resource
import threading

import pytest

from pyebpf import BPF, CompileError, InvalidValue, NotLoaded, Struct, array, u32, u64
from pyebpf.types import wrap
from tests.support.needs import needs
from tests.support.simulated import simulated
from tests.support.waiting import PATIENCE

PAGE = resource.getpagesize()


class Cell(Struct):
    count: u64 = 0
    last: u32 = 0
    flag: u32 = 0


class Asked(Struct):
    index: u64
    value: u32 = 0
    seen: u32 = 0


def sharing():
    """A module whose program counts in cells of an arena, and the arena."""
    bpf = BPF()
    shared = bpf.arena(pages=3)

    @bpf.syscall(Asked)
    def count(ctx):
        index = ctx.index
        if index >= 3 * PAGE // 16:
            return -1
        cell = shared.at(index * 16, Cell)
        cell.count += 7
        ctx.seen = cell.flag
        cell.last = ctx.value
        return 0

    return bpf, shared, count


def test_both_sides_see_each_other():
    """Four threads' 4,001 counts are exact; what Python writes the program reads, in the first page and the last."""
    needs("isa:addr_space_cast")
    bpf, shared, count = sharing()
    times = [1000, 1000, 1000, 1001]

    def run(number):
        for _ in range(number):
            count.run(Asked(5))

    with bpf:
        assert len(shared.memory) == 3 * PAGE
        assert bytes(shared.memory) == bytes(3 * PAGE)
        threads = [threading.Thread(target=run, args=(number,)) for number in times]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert shared.read(80, Cell) == Cell(count=7 * 4001)
        last = 3 * PAGE // 16 - 1
        shared.write(16 * last, Cell(count=1, flag=23))
        result = count.run(Asked(last, value=9))
        assert (result.value, result.record.seen) == (0, 23)
        assert shared.read(16 * last, Cell) == Cell(count=8, last=9, flag=23)
        assert shared.read(16 * last, u64) == 8
        assert count.run(Asked(last + 1)).value == -1
        written = bytearray(3 * PAGE)
        written[80:96] = Cell(count=7 * 4001).to_bytes()
        written[16 * last :] = Cell(count=8, last=9, flag=23).to_bytes()
        assert bytes(shared.memory) == bytes(written)
        with pytest.raises(InvalidValue, match="16 bytes at 12273 lie outside the arena shared of 12288"):
            shared.read(3 * PAGE - 15, Cell)
    with pytest.raises(NotLoaded):
        shared.read(0, Cell)


def test_a_simulation_has_the_same_bytes():
    """The same runs leave the same arena, by the kernel and by the interpreter; two arenas of a module stay apart."""
    needs("isa:addr_space_cast")
    asked = [
        Asked(5),
        Asked(3 * PAGE // 16 - 1, value=9),
        Asked(3 * PAGE // 16),
        Asked(5, value=(1 << 32) - 1),
        Asked(0),
    ]
    start = Cell(count=1, flag=23)

    def module():
        bpf, shared, count = sharing()
        other = bpf.arena(pages=1)

        @bpf.syscall(Asked)
        def sort(ctx):
            table = other.at(64, array(u32, 128))
            table[ctx.index & 127] += ctx.value
            return 0

        return bpf, shared, other, count, sort

    bpf, shared, other, count, sort = module()
    with bpf:
        shared.write(80, start)
        runs = [count.run(each) for each in asked]
        values = [(result.value, result.record) for result in runs]
        for each in asked:
            sort.run(each)
        memories = bytes(shared.memory), bytes(other.memory)
    bpf, shared, other, count, sort = module()
    with simulated(bpf) as kernel:
        shared.write(80, start)
        made = [kernel.run("count", context=each.to_bytes()) for each in asked]
        assert [(wrap(each.value, 4, signed=True), Asked.from_bytes(each.context)) for each in made] == values
        for each in asked:
            kernel.run("sort", context=each.to_bytes())
        assert (bytes(shared.memory), bytes(other.memory)) == memories
        assert shared.read(80, Cell) == Cell(count=15, last=(1 << 32) - 1, flag=23)
        with pytest.raises(InvalidValue, match="lie outside the arena shared"):
            shared.read(3 * PAGE - 15, Cell)


def test_arrays():
    """An array in an arena is indexed inside its bounds, by programs of events, too."""
    needs("isa:addr_space_cast")
    bpf = BPF()
    shared = bpf.arena(pages=1)

    @bpf.cgroup_skb_egress()
    def sizes(ctx):
        table = shared.at(64, array(u32, 128))
        table[ctx.len & 127] += 1
        return 1

    with bpf:
        for length in (14 + 20, 14 + 20, 14 + 67):
            sizes.program.test_run(data=bytes(length))
        found = shared.read(64, array(u32, 128))
        assert {index: number for index, number in enumerate(found) if number} == {20: 2, 67: 1}


def test_refusals():
    """An offset that may lie outside, a bare number, two arenas, a size that is none."""
    needs("isa:addr_space_cast")

    def refused(at):
        bpf = BPF()
        first, second = bpf.arena(pages=1), bpf.arena(pages=1)

        @bpf.syscall(Asked)
        def work(ctx):
            at(first, second, ctx.index)
            return 0

        with pytest.raises(CompileError) as caught:
            bpf.specs()
        return caught.value.message

    def outside(first, second, index):
        first.at(index, Cell).count = 1

    assert "may lie outside the arena" in refused(outside)

    def number(first, second, index):
        first.at(0, u32)

    assert "give a Struct or an array type" in refused(number)

    def two(first, second, index):
        first.at(0, Cell).count = second.at(0, Cell).count

    assert refused(two).startswith("a program uses one arena: ")
    with pytest.raises(InvalidValue, match="give 1 to 1048575"):
        BPF().arena(pages=0)
