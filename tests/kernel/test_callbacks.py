"""Locks, timers, and functions called for each entry: what they change is counted exactly."""

from __future__ import annotations

import os
import threading
import time

import pytest

from pyebpf import (
    BPF,
    OnlyInProbe,
    SpinLock,
    Struct,
    Timer,
    comm,
    field,
    loop,
    pid,
    spin_lock,
    timer,
    u32,
    u64,
)
from tests.support.needs import needs
from tests.support.refused import compile_error
from tests.support.waiting import PATIENCE, wait_until


class Pair(Struct):
    lock: SpinLock = field(spin_lock, default=None)
    a: u64 = 0
    b: u64 = 0
    product: u64 = 1


class Job(Struct):
    clock: Timer = field(timer, default=None)
    runs: u64 = 0
    first: u64 = 0


def test_locked_fields_change_together():
    """Four threads run a program 5,003 times: under the lock no change of either field is lost, or seen halfway."""
    bpf = BPF()
    pairs = bpf.hash(key=u32, value=Pair)

    @bpf.cgroup_skb_ingress()
    def work():
        pair = pairs.get(7)
        if pair is None:
            return 0
        with pair.lock:
            pair.a += 1
            if pair.a % 3 == 0:
                pair.b += 5
                return 1
            pair.b += 3
            pair.product *= 3
        return 0

    times = [1250, 1251, 1251, 1251]
    results = []

    def run(count):
        program = work.program  # Linux 6.1 has no locks in syscall programs
        results.append(sum(program.test_run(data=bytes(64)).retval for _ in range(count)))

    with bpf:
        pairs[7] = Pair()
        threads = [threading.Thread(target=run, args=(count,)) for count in times]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            seen = pairs[7]
            assert seen.b == 3 * (seen.a - seen.a // 3) + 5 * (seen.a // 3)
        for thread in threads:
            thread.join(PATIENCE)
        thirds = 5003 // 3
        assert sum(results) == thirds
        assert pairs[7] == Pair(a=5003, b=3 * (5003 - thirds) + 5 * thirds, product=pow(3, 5003 - thirds, 1 << 64))


def test_what_a_lock_forbids():
    """Calls under a lock, tracing programs, and Python itself."""

    def refusal(make):
        bpf = BPF()
        make(bpf, bpf.hash(key=u32, value=Pair), bpf.hash(key=u32, value=u64))
        return compile_error(bpf.specs)

    def call(bpf, pairs, counts):
        @bpf.cgroup_skb_ingress()
        def work():
            pair = pairs.get(7)
            if pair is not None:
                with pair.lock:
                    counts[pid()] += 1
            return 0

    assert refusal(call).startswith("a spin lock is held, and nothing may be called under it")

    def two(bpf, pairs, counts):
        @bpf.cgroup_skb_ingress()
        def work():
            first, second = pairs.get(1), pairs.get(2)
            if first is not None and second is not None:
                with first.lock, second.lock:
                    first.a += 1
            return 0

    assert refusal(two).startswith("a spin lock is held, and nothing may be called under it")

    def tracing(bpf, pairs, counts):
        @bpf.raw_tracepoint("sys_enter")
        def work():
            pair = pairs.get(7)
            if pair is not None:
                with pair.lock:
                    pair.a += 1

    assert refusal(tracing).startswith("a spin lock: programs of type raw tracepoint may interrupt any other")

    def unchecked(bpf, pairs, counts):
        @bpf.cgroup_skb_ingress()
        def work():
            pair = pairs.get(7)
            with pair.lock:
                pair.a += 1
            return 0

    assert "may be None: test it with `is None` first" in refusal(unchecked)
    with pytest.raises(OnlyInProbe), SpinLock():
        pass


def walking(count):
    """A module whose programs walk a hash of `count` entries."""
    bpf = BPF()
    squares = bpf.hash(key=u32, value=u64)
    seen = bpf.array(value=u64, size=4)
    names = bpf.hash(key=u32, value=u64)

    def each(key, value):
        seen[0] += key
        seen[1] += value
        if key == 3:
            names[pid()] += 1

    def five(key, value) -> bool:
        seen[2] += 1
        return seen[2] >= 5

    def remove(key, value):
        if value % 2 == 0:
            del squares[key]

    @bpf.syscall()
    def walk():
        return squares.for_each(each)

    @bpf.syscall()
    def some():
        return squares.for_each(five)

    @bpf.syscall()
    def clean():
        return squares.for_each(remove)

    return bpf, squares, seen, names, (walk, some, clean)


def test_each_entry():
    """A function is called once for each of 1,009 entries, stops at the fifth, and may delete as it goes."""
    needs("program:syscall", "helper:for_each_map_elem@cgroup_skb")
    bpf, squares, seen, names, (walk, some, clean) = walking(1009)
    with bpf:
        assert walk.run().value == 0
        squares.update({n: n * n for n in range(1009)})
        assert walk.run().value == 1009
        assert seen[0] == sum(range(1009))
        assert seen[1] == sum(n * n for n in range(1009))
        assert dict(names.items()) == {os.getpid(): 1}
        assert some.run().value == 5
        assert seen[2] == 5
        assert clean.run().value == 1009
        assert set(squares) == {n for n in range(1009) if n % 2}


def test_each_record():
    """The value of a record is a reference: what the function writes stays; arrays and per-CPU maps are walked, too."""
    needs("program:syscall", "helper:for_each_map_elem@cgroup_skb")
    bpf = BPF()
    pairs = bpf.array(value=Pair, size=13)
    counts = bpf.percpu_array(value=u64, size=3)
    total = bpf.array(value=u64)

    def change(key, pair):
        pair.a += 10 * key
        pair.b += 1

    def add(key, value):
        total[0] += value + 1

    @bpf.cgroup_skb_ingress()
    def walk():
        return 1 if pairs.for_each(change) == 13 else 0

    @bpf.syscall()
    def mine():
        counts[1] += 7
        return counts.for_each(add)

    with bpf:
        for _ in range(3):
            assert walk.program.test_run(data=bytes(64)).retval == 1
        assert [(pairs[n].a, pairs[n].b) for n in range(13)] == [(30 * n, 3) for n in range(13)]
        assert mine.run().value == 3
        assert total[0] == 7 + 3


def test_each_in_a_tracepoint():
    """A tracing program walks a map at an event; the function has the program's context."""
    needs("helper:for_each_map_elem@tracepoint")
    bpf = BPF()
    wanted = bpf.hash(key=u32, value=u64)
    found = bpf.hash(key=u32, value=u64)
    me = os.getpid()

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def on_call():
        if pid() == me:
            wanted.for_each(note)

    def note(key, value):
        found[key] += value

    with bpf:
        wanted.update({2: 20, 3: 30, 5: 50})
        for _ in range(11):
            os.getppid()
        assert dict(found.items()) == {2: 220, 3: 330, 5: 550}


def test_what_cannot_be_walked():
    """Kinds that the kernel does not walk, functions of another shape, things that are none, results that are none."""
    needs("helper:for_each_map_elem@syscall")

    def refusal(function, make=lambda bpf: bpf.hash(key=u32, value=u64)):
        bpf = BPF()
        table = make(bpf)

        @bpf.syscall()
        def walk():
            return table.for_each(function)

        return compile_error(bpf.specs)

    def one(key):
        pass

    assert refusal(one) == "one: a function for table.for_each() takes 2 arguments, not 1"

    def number(key, value) -> u64:
        return key

    assert refusal(number).startswith("number: a function for table.for_each() returns nothing, or True to stop")
    assert refusal(3) == "table.for_each() takes a function of a key and a value, not 3"
    assert refusal(one, lambda bpf: bpf.lpm_trie(key=__import__("pyebpf").ipv4_prefix, value=u64)).startswith(
        "table.for_each(): the kernel iterates over hashes and arrays only"
    )


def test_a_function_of_many_rounds():
    """A million rounds of one function, of which the verifier sees one; it has the context, and stops by True."""
    needs("helper:loop@syscall")
    bpf = BPF()
    sums = bpf.array(value=u64, size=3)

    def add(i):
        sums[0] += i

    def until(i) -> bool:
        sums[1] += 1
        return i == 1008

    @bpf.syscall(Job)
    def work(ctx):
        ctx.runs = loop(1_000_000, add)
        return loop(min(ctx.first, 5000), until)

    with bpf:
        result = work.run(Job(first=5001))
        assert (result.record.runs, result.value) == (1_000_000, 1009)
        assert sums[0] == sum(range(1_000_000))
        assert sums[1] == 1009
        assert work.run(Job(first=3)).value == 3
    bpf = BPF()

    @bpf.syscall(Job)
    def unbounded(ctx):
        return loop(ctx.first, add)

    assert compile_error(bpf.specs).startswith("loop() runs 0 to 8388608 iterations, and this number may be outside")


def test_timers():
    """A timer calls its function once, 20 ms from now; one that starts itself again goes on until it is cancelled."""
    needs("program:syscall")
    bpf = BPF()
    jobs = bpf.hash(key=u32, value=Job)

    def once(key, job):
        job.runs += 1

    def again(key, job):
        job.runs += 1
        if job.runs < 23:
            job.clock.start(again, 1_000_000)

    @bpf.syscall()
    def later():
        job = jobs.get(1)
        return -1 if job is None else job.clock.start(once, 20_000_000)

    @bpf.syscall()
    def repeat():
        job = jobs.get(2)
        return -1 if job is None else job.clock.start(again, 1_000_000)

    @bpf.syscall()
    def never():
        job = jobs.get(3)
        if job is None:
            return -1
        job.clock.start(once, 3_600_000_000_000)
        return job.clock.cancel()

    with bpf:
        assert later.run().value == -1
        jobs.update({number: Job() for number in (1, 2, 3)})
        assert later.run().value == 0
        assert repeat.run().value == 0
        assert never.run().value == 1
        wait_until(lambda: jobs[2].runs == 23)
        wait_until(lambda: jobs[1].runs == 1)
        time.sleep(0.05)
        assert [jobs[number].runs for number in (1, 2, 3)] == [1, 23, 0]
        # Stored by user space, the timer of the entry stays the kernel's.
        jobs[1] = Job(first=5)
        assert later.run().value == 0
        del jobs[1]  # and with it its timer
        time.sleep(0.05)
        assert 1 not in jobs


def test_what_timers_forbid():
    """Tracing programs, and a context that has long ended."""
    bpf = BPF()
    jobs = bpf.hash(key=u32, value=Job)

    def once(key, job):
        job.runs += 1

    @bpf.raw_tracepoint("sys_enter")
    def work():
        job = jobs.get(1)
        if job is not None:
            job.clock.start(once, 1000)

    assert compile_error(bpf.specs).startswith("a timer: programs of type raw tracepoint may interrupt any other")
    with pytest.raises(OnlyInProbe):
        Timer().start(once, 5)
    bpf = BPF()
    names = bpf.array(value=Pair)

    @bpf.cgroup_skb_ingress()
    def name():
        pair = names[0]
        pair.lock.start(once, 5)
        return 0 if comm() == "x" else 1

    assert compile_error(bpf.specs) == "the spin_lock of an entry of names has no attribute start"
