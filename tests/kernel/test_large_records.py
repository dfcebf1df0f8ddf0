"""Records larger than the stack: built, changed, copied and sent by way of a per-CPU map that the compiler makes."""

from __future__ import annotations

from contextlib import closing

import pytest

from pyebpf import BPF, CompileError, Struct, char, field, now, u8, u32, u64, unroll
from tests.support.needs import needs

SIZE = 17


class Large(Struct):
    """1 KiB."""

    at: u64
    number: u32
    name: str = field(char[244])
    text: str = field(char[512])
    bytes_: bytes = field(u8[256])


class Long(Struct):
    """800 bytes."""

    count: u64
    rest: tuple[int, ...] = field(u64[99], default=(0,) * 99)


class Huge(Struct):
    """Half of what a per-CPU map holds, and a little."""

    count: u64
    rest: bytes = field(u8[17_000], default=bytes(17_000))


class Wide(Struct):
    number: u64
    name: str = field(char[600])


def loaded(make):
    """A module with the maps that the probes of `make` use, loaded."""
    bpf = BPF()
    make(
        bpf,
        bpf.hash(key=u32, value=Large, name="pending"),
        bpf.array(value=Large, name="source"),
        bpf.hash(key=u32, value=Long, name="longs"),
    )
    bpf.load()
    return bpf


def run(bpf):
    """Run the only program once."""
    (program,) = bpf.programs.values()
    program.test_run(context=bytes(96))


FILLED = Large(7, 8, "name", "text" * 100, bytes(range(256)))


def test_map_to_map():
    """An entry goes from one map into another, and from a map into itself."""

    def make(bpf, pending, source, longs):
        @bpf.raw_tracepoint("sys_enter")
        def copy() -> None:
            pending[1] = source[0]
            entry = pending.get(1)
            if entry is not None:
                pending[2] = entry

    with closing(loaded(make)) as bpf:
        bpf["source"][0] = FILLED
        run(bpf)
        assert dict(bpf["pending"].items()) == {1: FILLED, 2: FILLED}


def test_a_record_is_built_field_by_field():
    """It is a local like others; what an earlier run left in the memory is not seen."""

    def make(bpf, pending, source, longs):
        @bpf.raw_tracepoint("sys_enter")
        def build() -> None:
            before = source[0]
            record = Large(at=0, number=0, name="", text="x", bytes_=bytes(256))
            record.number = before.number + 1
            record.name = before.name
            for i in range(256):
                record.bytes_[i] = i ^ before.number
            record.at += record.number
            pending[1] = record

    with closing(loaded(make)) as bpf:
        for number in (3, 200):
            bpf["source"][0] = Large(0, number, f"n{number}", "old", bytes(256))
            run(bpf)
            changed = bytes(i ^ number for i in range(256))
            assert bpf["pending"][1] == Large(number + 1, number + 1, f"n{number}", "x", changed)


def test_add_and_pop_of_800_bytes():
    """A zero value is added, found and taken out."""

    def make(bpf, pending, source, longs):
        @bpf.raw_tracepoint("sys_enter")
        def add() -> None:
            longs.add(3, Long(count=5))
            longs.add(3, Long(count=6))
            taken = longs.pop(3)
            if taken is not None:
                taken.rest[98] = 4
                longs[4] = taken

    with closing(loaded(make)) as bpf:
        run(bpf)
        assert dict(bpf["longs"].items()) == {4: Long(5, (*[0] * 98, 4))}


def test_two_records_at_once_and_one_sent():
    """Each has memory of its own, in one map."""

    def make(bpf, pending, source, longs):
        sent = bpf.ringbuf(Large, name="sent")

        @bpf.raw_tracepoint("sys_enter")
        def build() -> None:
            one = Large(at=now(), number=1, name="one", text="", bytes_=bytes(256))
            two = Large(at=now(), number=2, name="two", text="", bytes_=bytes(256))
            one.at, two.at = 11, 12
            pending[1] = one
            sent.emit(two)

    with closing(loaded(make)) as bpf:
        run(bpf)
        assert bpf["pending"][1] == Large(11, 1, "one", "", bytes(256))
        assert bpf["sent"].poll(1) == [Large(12, 2, "two", "", bytes(256))]


def test_a_run_that_finds_the_memory_taken_is_counted_and_leaves_it_alone():
    """So is it where a program interrupts itself; afterwards the memory is free again."""

    def make(bpf, pending, source, longs):
        @bpf.raw_tracepoint("sys_enter")
        def copy() -> None:
            if source[0].number > 100:
                return
            pending[1] = source[0]

    with closing(loaded(make)) as bpf:
        (scratch,) = (each for name, each in bpf._loaded.maps.items() if name.startswith(".scratch"))
        free = list(scratch.per_cpu[0])
        assert not any(words[0] for words in free)
        scratch[0] = [(1, *words[1:]) for words in free]
        run(bpf)
        assert len(bpf["pending"]) == 0
        assert list(bpf.dropped.values()) == [1]
        scratch[0] = free
        for number in (101, 5, 6):  # every way out gives it back
            bpf["source"][0] = Large(0, number, "", "", bytes(256))
            run(bpf)
        assert bpf["pending"][1].number == 6
        assert list(bpf.dropped.values()) == [1]


def test_drops_of_programs_of_several_targets_have_a_counter_each():
    """A probe of two calls, whose programs share code; what is dropped later comes behind the memory's counter."""
    bpf = BPF()
    first, second = bpf.ringbuf(Large, name="first"), bpf.hash(key=u32, value=u64, name="second")

    @bpf.system_call("accept", "accept4")
    def on_call(fd: int, retval: int) -> None:
        made = Large(0, 1, "name", "text", bytes(256))
        if retval == 5:
            made.number = fd
        first.emit(made)

    @bpf.raw_tracepoint("sys_exit")
    def on_exit(ret: int) -> None:
        if ret == -4095:
            second[1] = 1

    bpf.load()
    with closing(bpf):
        drops = bpf._loaded.maps[".drops"]
        assert drops.value_type.size == 8 * len(bpf.drop_reasons)
        assert len(set(bpf.drop_reasons)) == len(bpf.drop_reasons) == 4


def test_an_error_stands_at_the_statement():
    """What even a per-CPU map has no room for, and many small records that the stack has none for."""
    bpf = BPF()
    huge = bpf.hash(key=u32, value=Huge)

    @bpf.raw_tracepoint("sys_enter")
    def build() -> None:
        huge[1] = Huge(count=1)
        one = Huge(count=2)
        two = Huge(count=3)
        one.count = two.count
        huge[2] = one

    with pytest.raises(CompileError, match="take more than the 32768 bytes of a per-CPU map") as caught:
        bpf.load()
    assert caught.value.location is not None
    assert "Huge(count=" in caught.value.location.text


def test_records_that_are_not_needed_at_once_share_their_memory():
    """Sixty of 800 bytes in turn, more than a per-CPU map holds; the first is needed to the end."""
    bpf = BPF()
    longs = bpf.hash(key=u32, value=Long, name="longs")

    @bpf.raw_tracepoint("sys_enter")
    def build() -> None:
        first = Long(count=7)
        for number in unroll(range(60)):
            one = Long(count=number)
            one.rest[number] = number + 1
            longs[number] = one
        last = Long(count=9)
        last.rest[2] = first.count
        longs[60] = last
        longs[61] = first

    with closing(bpf):
        bpf.load()
        run(bpf)
        wanted = {n: Long(n, tuple((n + 1) * (n == at) for at in range(99))) for n in range(60)}
        wanted[60] = Long(9, (0, 0, 7, *[0] * 96))
        wanted[61] = Long(7, (0,) * 99)
        assert dict(bpf["longs"].items()) == wanted
        (memory,) = [found for name, found in bpf._loaded.maps.items() if name.startswith(".scratch")]
        assert memory.value_type.size < 4000


def test_what_fits_the_stack_stays_there():
    """No scratch memory is made for a program that needs none."""

    class Small(Struct):
        name: str = field(char[256])

    bpf = BPF()
    small = bpf.hash(key=u32, value=Small)

    @bpf.raw_tracepoint("sys_enter")
    def keep() -> None:
        small[1] = Small(name="kept")

    with closing(bpf):
        bpf.load()
        assert not any(name.startswith(".scratch") for name in bpf._loaded.maps)


def test_bodies_of_loops_over_maps_make_large_records():
    """Two in each round of a loop inside another, one built of the other; `return` gives the memory back."""
    needs("program:syscall")
    bpf = BPF()
    numbers = bpf.hash(key=u32, value=u64, name="numbers")
    kept = bpf.hash(key=u32, value=Wide, name="kept")

    @bpf.syscall()
    def program():
        total = 0
        for one, value in numbers.items():
            for other, factor in numbers.items():
                first = Wide(number=value * factor, name="first")
                kept[one * 10 + other] = first
                second = Wide(number=first.number + 1, name=first.name)
                kept[one * 10 + other + 1000] = second
                total += second.number
                if second.number == 50:
                    return total + 10_000
        return total

    with bpf:
        for _ in range(2):
            numbers.update({1: 5, 2: 6})
            assert program.run().value == 25 + 30 + 30 + 36 + 4
            assert {key: (wide.number, wide.name) for key, wide in kept.items()} == {
                11: (25, "first"),
                12: (30, "first"),
                21: (30, "first"),
                22: (36, "first"),
                1011: (26, "first"),
                1012: (31, "first"),
                1021: (31, "first"),
                1022: (37, "first"),
            }
            numbers.clear()
            numbers[7] = 7
            assert program.run().value == 10_050
            kept.clear()
            numbers.clear()
        assert sum(bpf.dropped.values()) == 0
