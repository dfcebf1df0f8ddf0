"""Records larger than the stack in subprograms, in functions that helpers call, in timers' functions and tail calls."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from pyebpf import BPF, CompileError, Struct, Timer, char, field, loop, timer, u8, u32, u64
from tests.support.needs import needs
from tests.support.refused import compile_error
from tests.support.waiting import wait_until


class Kilobyte(Struct):
    """1 KiB."""

    number: u64
    name: str = field(char[248])
    text: str = field(char[512])
    parts: bytes = field(u8[256])


class Job(Struct):
    clock: Timer = field(timer, default=None)
    runs: u64 = 0


def expected(number: int, name: str) -> Kilobyte:
    """The record that the functions below build of a number."""
    return Kilobyte(number * 3, name, "text", bytes((i ^ number) & 255 for i in range(256)))


def test_a_subprogram_builds_a_kilobyte_field_by_field():
    """Its record and its caller's are apart, whichever is written last; one subprogram calls another."""
    needs("program:syscall")
    bpf = BPF()
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")

    @bpf.subprogram
    def inner(number: u64) -> u64:
        record = Kilobyte(number=0, name="", text="", parts=bytes(256))
        record.text = "text"
        record.name = "inner"
        for i in range(256):
            record.parts[i] = i ^ number
        record.number = number * 3
        kept[number] = record
        return record.number

    @bpf.subprogram
    def outer(number: u64) -> u64:
        record = Kilobyte(number=number, name="outer", text="text", parts=bytes(256))
        record.number = inner(number + 1)
        record.parts[7] = record.number
        kept[number] = record
        return record.number

    @bpf.syscall()
    def program():
        first = Kilobyte(number=1, name="first", text="", parts=bytes(256))
        first.number += outer(10)
        second = Kilobyte(number=first.number, name="second", text="", parts=bytes(256))
        first.number += outer(20)
        kept[1] = first
        kept[2] = second
        return first.number + second.number

    with bpf:
        for _ in range(2):
            assert program.run().value == (1 + 33 + 63) + (1 + 33)
            assert dict(kept.items()) == {
                1: Kilobyte(97, "first", "", bytes(256)),
                2: Kilobyte(34, "second", "", bytes(256)),
                10: Kilobyte(33, "outer", "text", bytes([*[0] * 7, 33, *[0] * 248])),
                20: Kilobyte(63, "outer", "text", bytes([*[0] * 7, 63, *[0] * 248])),
                11: expected(11, "inner"),
                21: expected(21, "inner"),
            }
            kept.clear()
        assert sum(bpf.dropped.values()) == 0


def test_functions_of_loop_and_for_each_build_a_kilobyte():
    """In each round anew, beside a record of the program around them, and through a subprogram that both call."""
    needs("program:syscall", "helper:loop@syscall")
    bpf = BPF()
    numbers = bpf.hash(key=u32, value=u64, name="numbers")
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")

    @bpf.subprogram
    def keep(key: u32, number: u64) -> None:
        record = Kilobyte(number=number, name="keep", text="text", parts=bytes(256))
        for i in range(256):
            record.parts[i] = i ^ number
        record.number *= 3
        kept[key] = record

    def each(key, value):
        record = Kilobyte(number=0, name="each", text="", parts=bytes(256))
        record.text = "text"
        for i in range(256):
            record.parts[i] = i ^ value
        keep(key + 200, value)
        record.number = value * 3
        kept[key + 100] = record

    def round_(i) -> bool:
        record = Kilobyte(number=i, name="round", text="", parts=bytes(256))
        keep(i + 400, i)
        record.text = "text"
        for at in range(256):
            record.parts[at] = at ^ i
        record.number *= 3
        kept[i + 300] = record
        return i == 4

    @bpf.syscall()
    def program():
        first = Kilobyte(number=1000, name="first", text="", parts=bytes(256))
        first.number += numbers.for_each(each)
        first.number += loop(17, round_)
        kept[1] = first
        return first.number

    with bpf:
        numbers.update({1: 5, 2: 6, 3: 255})
        for _ in range(2):
            assert program.run().value == 1000 + 3 + 5
            assert dict(kept.items()) == {
                1: Kilobyte(1008, "first", "", bytes(256)),
                **{100 + key: expected(value, "each") for key, value in numbers.items()},
                **{200 + key: expected(value, "keep") for key, value in numbers.items()},
                **{300 + i: expected(i, "round") for i in range(5)},
                **{400 + i: expected(i, "keep") for i in range(5)},
            }
            kept.clear()
        assert sum(bpf.dropped.values()) == 0


def test_a_loop_over_a_map_in_a_subprogram():
    """Its body's records are in the subprogram's memory."""
    needs("program:syscall", "helper:for_each_map_elem@syscall")
    bpf = BPF()
    numbers = bpf.hash(key=u32, value=u64, name="numbers")
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")

    @bpf.subprogram
    def copy(more: u64) -> u64:
        total = u64(0)
        for key, value in numbers.items():
            record = Kilobyte(number=value + more, name="body", text="", parts=bytes(256))
            total += record.number
            kept[key] = record
        return total

    @bpf.syscall()
    def program():
        first = Kilobyte(number=1, name="first", text="", parts=bytes(256))
        first.number += copy(100)
        kept[9] = first
        return first.number

    with bpf:
        numbers.update({1: 5, 2: 6})
        assert program.run().value == 212
        assert dict(kept.items()) == {
            1: Kilobyte(105, "body", "", bytes(256)),
            2: Kilobyte(106, "body", "", bytes(256)),
            9: Kilobyte(212, "first", "", bytes(256)),
        }


def test_a_handler_of_drain_takes_a_kilobyte():
    """The record that it is given is a copy in the program's memory."""
    needs("program:syscall", "map:user_ringbuf")
    bpf = BPF()
    sent = bpf.user_ringbuf(Kilobyte, name="sent")
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")

    def handle(record):
        other = Kilobyte(number=record.number * 3, name=record.name, text="text", parts=record.parts)
        kept[record.number] = other

    @bpf.syscall()
    def program():
        return sent.drain(handle)

    with bpf:
        for number in (3, 5, 7):
            sent.send(Kilobyte(number, f"n{number}", "", expected(number, "").parts))
        assert program.run().value == 3
        assert dict(kept.items()) == {number: expected(number, f"n{number}") for number in (3, 5, 7)}


def timed(bpf):
    """A program and a timer's function, each with a record of its own and with that of a subprogram."""
    jobs = bpf.hash(key=u32, value=Job, name="jobs")
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")

    @bpf.subprogram
    def keep(key: u32, number: u64) -> u64:
        record = Kilobyte(number=number, name="keep", text="text", parts=bytes(256))
        for i in range(256):
            record.parts[i] = i ^ number
        record.number *= 3
        wrong = 0
        for i in range(256):
            wrong += record.parts[i] != (i ^ number) & 255
        kept[key] = record
        return record.number + wrong

    def tick(key, job):
        job.runs += 1
        record = Kilobyte(number=1, name="tick", text="text", parts=bytes(256))
        record.number += keep(1, 77)
        kept[2] = record
        if job.runs < 53:
            job.clock.start(tick, 200_000)

    @bpf.syscall()
    def start():
        if jobs.get(1) is None:
            jobs[1] = Job()
        job = jobs.get(1)
        if job is not None:
            job.clock.start(tick, 1)
        return 0

    @bpf.syscall()
    def both():
        record = Kilobyte(number=1, name="both", text="text", parts=bytes(256))
        record.number += keep(3, 5)
        kept[4] = record
        job = jobs.get(1)
        if record.number == 2 and job is not None:
            job.clock.start(tick, 1)
        return record.number

    return jobs, kept, start, both


def test_a_timer_has_memory_of_its_own():
    """It interrupts a program that runs all the while: neither finds the other's bytes, nor the memory taken."""
    needs("program:syscall", "helper:timer_init@syscall")
    bpf = BPF()
    jobs, kept, start, both = timed(bpf)
    with bpf:
        names = [name for name in bpf._loaded.maps if name.startswith(".scratch")]
        assert len(names) == 3  # of `both`, of its timer's function, and of that of `start`, which needs none itself
        start.run()
        done = threading.Event()
        results = set()

        def work():
            while not done.is_set():
                results.add(both.run().value)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            wait_until(lambda: jobs[1].runs >= 53)
        finally:
            done.set()
            thread.join()
        assert results == {16}
        assert dict(kept.items()) == {
            1: expected(77, "keep"),
            2: Kilobyte(1 + 77 * 3, "tick", "text", bytes(256)),
            3: expected(5, "keep"),
            4: Kilobyte(16, "both", "text", bytes(256)),
        }
        assert sum(bpf.dropped.values()) == 0


def test_a_replaceable_function_builds_a_kilobyte():
    """It runs within its program's claim."""
    needs("program:syscall")
    bpf = BPF()
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")

    @bpf.replaceable
    def keep(number: u64) -> u64:
        record = Kilobyte(number=number * 3, name="keep", text="text", parts=bytes(256))
        for i in range(256):
            record.parts[i] = i ^ number
        kept[number] = record
        return record.number

    @bpf.syscall()
    def program():
        record = Kilobyte(number=1, name="program", text="", parts=bytes(256))
        record.number += keep(5)
        kept[1] = record
        return record.number

    with closing(bpf):
        bpf.load()
        assert program.run().value == 16
        assert dict(kept.items()) == {5: expected(5, "keep"), 1: Kilobyte(16, "program", "", bytes(256))}


def test_a_replaceable_function_that_a_timer_calls_too():
    """There is one of it, so its record cannot be in the memory of both."""
    needs("program:syscall", "helper:timer_init@syscall")
    bpf = BPF()
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")
    jobs = bpf.hash(key=u32, value=Job, name="jobs")

    @bpf.replaceable
    def keep(number: u64) -> u64:
        kept[number] = Kilobyte(number=number * 3, name="keep", text="text", parts=bytes(256))
        return 0

    def tick(key, job):
        keep(7)

    @bpf.syscall()
    def timed():
        job = jobs.get(1)
        if job is not None:
            job.clock.start(tick, 1)
        return keep(5)

    with pytest.raises(CompileError, match=r"keep is replaceable, .*both the program and a timer's function call"):
        bpf.load()


def program_of(bpf, name):
    """The loaded program of that name."""
    (program,) = (each for each in bpf.programs.values() if each.name == name)
    return program


def called(bpf):
    """A program with a large record that goes on with entry 0 or 1 of a table, or itself where there is none."""
    table = bpf.program_array(size=3, name="table")
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")
    wanted = bpf.array(value=u32, size=1, name="wanted")

    @bpf.raw_tracepoint("sys_enter")
    def first() -> None:
        record = Kilobyte(number=1, name="first", text="", parts=bytes(256))
        for i in range(256):
            record.parts[i] = i ^ 5
        kept[1] = record
        table.tail_call(wanted[0])
        record.number = 15
        record.text = "text"
        kept[2] = record

    @table.entry(0, like=first)
    def second() -> None:
        record = Kilobyte(number=2, name="second", text="", parts=bytes(256))
        record.number += 5
        kept[3] = record

    return kept, wanted


def test_tail_calls():
    """The memory is free while the next program runs, and that of a call that finds none is as it was."""
    bpf = BPF()
    kept, wanted = called(bpf)
    begun = Kilobyte(1, "first", "", expected(5, "").parts)
    with closing(bpf):
        bpf.load()
        program = program_of(bpf, "first")
        for _ in range(3):
            program.test_run(context=bytes(96))
            assert dict(kept.items()) == {1: begun, 3: Kilobyte(7, "second", "", bytes(256))}
            kept.clear()
        wanted[0] = 1
        for _ in range(3):
            program.test_run(context=bytes(96))
            assert dict(kept.items()) == {1: begun, 2: expected(5, "first")}
            kept.clear()
        assert sum(bpf.dropped.values()) == 0
        memory = [each for name, each in bpf._loaded.maps.items() if name.startswith(".scratch")]
        assert len(memory) == 2
        assert not any(words[0] for each in memory for words in each.per_cpu[0])


def test_a_tail_call_in_a_subprogram_comes_back_to_its_caller():
    """Who keeps the memory until then: a program that calls itself so finds it taken, and is counted."""
    bpf = BPF()
    table = bpf.program_array(size=2, name="table")
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")
    counts = bpf.array(value=u64, size=2, name="counts")

    @bpf.subprogram
    def go(index: u32) -> u64:
        counts[0] += 1
        table.tail_call(index)
        return 0

    @bpf.raw_tracepoint("sys_enter")
    def first() -> None:
        record = Kilobyte(number=15, name="first", text="text", parts=bytes(256))
        for i in range(256):
            record.parts[i] = i ^ 5
        go(0)
        kept[1] = record

    @table.entry(0, like=first)
    def second() -> None:
        counts[1] += 1

    with closing(bpf):
        bpf.load()
        for _ in range(3):
            program_of(bpf, "first").test_run(context=bytes(96))
        assert list(counts.values()) == [3, 3]
        assert dict(kept.items()) == {1: expected(5, "first")}
        assert sum(bpf.dropped.values()) == 0


def test_too_much_for_a_processors_memory():
    """The records of a program and of all that it calls are counted together; the error stands at one of them."""
    bpf = BPF()
    kept = bpf.hash(key=u32, value=Kilobyte, name="kept")
    made = []
    for _ in range(33):

        @bpf.subprogram
        def keep(number: u64) -> None:
            kept[number] = Kilobyte(number=number, name="", text="", parts=bytes(256))

        made.append(keep)
    subprograms = tuple(made)

    @bpf.raw_tracepoint("sys_enter")
    def program() -> None:
        for each in subprograms:
            each(1)

    assert "the records of program take more than the 32768 bytes of a per-CPU map" in compile_error(bpf.specs)
