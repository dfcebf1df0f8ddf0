"""Loops over maps in probes: random ones against CPython, and what each kind of program and map has of its own."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from pyebpf import (
    BPF,
    CompileError,
    SpinLock,
    Struct,
    char,
    comm,
    field,
    helpers,
    kfunc,
    pid,
    s64,
    spin_lock,
    u8,
    u32,
    u64,
)
from tests.differential.walks import by_cpython, contents, declare, generate, run_text
from tests.support.needs import needs

#: In an emulated machine, ten times slower, another kernel's verifier is what counts.
PROGRAMS = int(os.environ.get("PYEBPF_WALKS", "4" if "PYEBPF_VM" in os.environ else "23"))
FIRST = int(os.environ.get("PYEBPF_RANDOM_SEED", "0"))


class Pair(Struct):
    low: s64
    high: s64


class Row(Struct):
    n: u32
    items: list = field(u64[7])
    text: str = field(char[12])


class Name(Struct):
    name: str = field(char[12])


class Guarded(Struct):
    lock: SpinLock = field(spin_lock, default=None)
    count: u64 = 0


class Word(Struct):
    number: u32


class Text(Struct):
    name: str = field(char[16])
    count: u64 = 0


def test_random_loops_agree_with_cpython():
    """The same source returns the same number, and leaves the same in every map, whose order user space sees, too."""
    needs("helper:for_each_map_elem@syscall")
    bpf = BPF()
    maps = declare(bpf)
    programs = []
    for seed in range(FIRST, FIRST + PROGRAMS):
        text = generate(seed)
        name = f"program{seed}"
        programs.append((text, run_text(text.replace("def program", f"def {name}"), {"bpf": bpf, **maps}, name)))
    with bpf:
        for number, (text, program) in enumerate(programs):
            for name, entries in contents(Random(number)).items():
                maps[name].clear()
                maps[name].update(entries)
            value, expected = by_cpython(text, {name: dict(table.items()) for name, table in maps.items()})
            assert program.run().value == value, text
            assert {name: dict(table.items()) for name, table in maps.items()} == expected, text


def test_every_kind_of_map():
    """Each kind that the kernel walks gives all its entries: keys of numbers, of text, of records, and indices."""
    needs("helper:for_each_map_elem@syscall")
    bpf = BPF()
    kinds = {
        "hashed": bpf.hash(key=u32, value=u64, size=64, name="hashed"),
        "recent": bpf.lru_hash(key=u32, value=u64, size=64, name="recent"),
        "array": bpf.array(value=u64, size=13, name="array"),
        "per_cpu": bpf.percpu_hash(key=u32, value=u64, size=64, name="per_cpu"),
        "recent_per_cpu": bpf.lru_percpu_hash(key=u32, value=u64, size=64, name="recent_per_cpu"),
        "array_per_cpu": bpf.percpu_array(value=u64, size=13, name="array_per_cpu"),
    }

    def summing(table):
        @bpf.syscall()
        def program():
            total = 0
            for key, value in table.items():
                total += key * 1000
                total += s64(value)
            return total

        return program

    names = bpf.hash(key=char[16], value=u64)
    pairs = bpf.hash(key=Pair, value=Text)
    seen = bpf.hash(key=u32, value=Text)

    @bpf.syscall()
    def texts():
        own = comm()
        for name, count in names.items():
            if name == own or name.startswith("x"):
                names[name] += 100
            seen[count] = Text(name=name, count=count)
        for pair, text in pairs.items():
            if text.name == own:
                text.count += pair.low
        return 0

    programs = {name: summing(table) for name, table in kinds.items()}
    with bpf:
        for name, table in kinds.items():
            table.update({key: key + 1 for key in range(13)})
            expected = sum(key * 1000 + key + 1 for key in range(13))
            if not table.traits.per_cpu:
                assert programs[name].run().value == expected, name
                continue
            cpus = range(len(table.per_cpu[0]))
            sums = {sum(key * 1000 + table.per_cpu[key][each] for key in range(13)) for each in cpus}
            assert programs[name].run().value in sums, name
        own = Path("/proc/self/comm").read_text().strip()
        names.update({own: 1, "xyz": 2, "other": 3})
        pairs[Pair(low=7, high=1)] = Text(name=own, count=1)
        pairs[Pair(low=9, high=1)] = Text(name="other", count=1)
        texts.run()
        assert dict(names.items()) == {own: 101, "xyz": 102, "other": 3}
        assert dict(seen.items()) == {n: Text(name=name, count=n) for name, n in ((own, 1), ("xyz", 2), ("other", 3))}
        assert sorted(each.count for each in pairs.values()) == [1, 8]


def test_keys_outlive_their_entries():
    """An entry that the body moves to another map keeps its key, be it text or a record."""
    needs("helper:for_each_map_elem@syscall")
    bpf = BPF()
    texts, moved = bpf.hash(key=char[16], value=u64), bpf.hash(key=char[16], value=u64)
    pairs, lows = bpf.hash(key=Pair, value=u64), bpf.hash(key=u32, value=u64)

    @bpf.syscall()
    def move():
        left = 0
        for name, count in texts.items():
            if name.startswith("keep"):
                left += 1
                continue
            del texts[name]
            moved[name] = count
        for pair in pairs:
            pairs.pop(pair)
            lows[pair.low] = s64(pair.high)
        return left

    with bpf:
        texts.update({"keep this": 1, "one": 2, "another": 3})
        pairs.update({Pair(low=low, high=low * 7): 1 for low in range(11)})
        assert move.run().value == 1
        assert dict(texts.items()) == {"keep this": 1}
        assert dict(moved.items()) == {"one": 2, "another": 3}
        assert dict(lows.items()) == {low: low * 7 for low in range(11)}
        assert len(pairs) == 0


def test_what_a_body_reaches():
    """References, snapshots, records, the context and a packet's header from outside; inner maps; subprograms."""
    needs("helper:for_each_map_elem@syscall")
    bpf = BPF()
    limits = bpf.hash(key=u32, value=u64)
    pairs = bpf.hash(key=u32, value=Pair)
    shape = bpf.hash(key=u32, value=u64)
    shards = bpf.array_of_maps(shape, size=2)

    @bpf.subprogram
    def smallest(least: u64) -> u64:
        for number in limits.values():
            if number >= least:
                least = number
                break
        return least

    def entry(wanted):
        found = pairs.get(1)
        for key, pair in pairs.items():
            if pair.low == wanted:
                found = pairs.get(key)
        return found

    @bpf.cgroup_skb_ingress()
    def filter_(ctx):
        first = pairs.get(1)
        limit = limits.get(2)
        for key, number in limits.items():
            if first is None or limit is None:
                return 1
            first.low += number
            if limit > 50 and key == 3:
                first.high = ctx.len
                return 1 if number > limit else 0
        return 1

    @bpf.xdp()
    def frame(ctx):
        word = ctx.packet.header(Word, at=0)
        if word is None:
            return 9
        for key, number in limits.items():
            text = ctx.packet.header(Text, at=8)
            if text is not None and word.number == 0x03020100 and key == 3:
                text.count += word.number + number
                return 3
        return 4

    def nothing(key, number):
        pass

    @bpf.syscall()
    def inner():
        total = 0
        for index in range(2):
            shard = shards.get(index)
            if shard is None:
                continue
            for key, number in shard.items():
                total += s64(number)
                if key == 9:
                    del shard[key]
            total += 1000 * shard.for_each(nothing)
        return total

    @bpf.syscall()
    def references():
        found = entry(5)
        if found is None:
            return -1
        return found.high + s64(smallest(u64(7)))

    @bpf.raw_tracepoint("sys_enter")
    def traced(ctx):
        if pid() == 1:
            for key in limits:
                limits[key] += ctx.id

    with bpf:
        packet = bytes(range(64))
        assert filter_.program.test_run(data=packet).retval == 1
        assert references.run().value == -1
        pairs.update({key: Pair(low=key, high=10 * key) for key in range(1, 8)})
        limits.update({2: 51, 3: 52})
        assert filter_.program.test_run(data=packet).retval == 1
        limits[3] = 5
        assert filter_.program.test_run(data=packet).retval == 0
        assert pairs[1].high == 50
        result = frame.program.test_run(data=packet, data_out=64)
        assert result.retval == 3
        count = int.from_bytes(packet[24:32], "little") + 0x03020100 + 5
        assert result.data[24:32] == count.to_bytes(8, "little")
        assert frame.program.test_run(data=packet[:14]).retval == 4
        pairs[1] = Pair(low=1, high=10)
        assert references.run().value == 50 + 51
        made = [shards.make() for _ in range(2)]
        for index, each in enumerate(made):
            each.update({index: 5, 7: 11, 9: 13})
            shards[index] = each
            each.close()
        assert inner.run().value == 2 * (5 + 11 + 13) + 1000 * 4


def test_what_verifiers_must_see_again():
    """Bounds of numbers and parts of records from outside serve as indices, ends and keys in the body."""
    needs("helper:for_each_map_elem@syscall")
    bpf = BPF()
    counts = bpf.hash(key=u32, value=u64)
    rows = bpf.hash(key=u32, value=Row)
    names = bpf.hash(key=Name, value=u64)
    sent = bpf.ringbuf(Row)
    sizes = bpf.log2_hist(key=u32)

    @bpf.syscall()
    def bounded():
        n = min(counts.get(2, 0), 6)
        for key, row in rows.items():
            row.items[n] += 1
            for i in range(n):
                row.items[i] = key + i
            sizes[key].add(n)
            copy = Row(n=key, items=row.items, text=row.text)
            copy.items[n] += 5
            sent.emit(copy)
        return s64(n)

    @bpf.syscall()
    def changed():
        row = Row(n=1, items=[0, 0, 0, 0, 0, 0, 0], text="x")
        name = Name(name="abc")
        for key in counts:
            row.n += key
            row.items[key % 7] += 1
            row.text = "yy"
            name.name = "q"
            names[name] += 1
            if row.text == "yy" and len(row.text) == 2 and name in names:
                row.items[0] += 100
        if row.n > 3:
            sent.emit(row)
            return row.n
        return -1

    @bpf.raw_tracepoint("sched_switch")
    def traced(prev, next):  # noqa: A002 - the kernel's name
        for key in counts:
            if prev.tgid == key + 5_000_000:
                counts[key] += next.pid
                return

    with bpf:
        assert changed.run().value == -1
        counts.update({1: 1, 2: 4, 4: 4})
        rows.update({key: Row(n=0, items=[9] * 7, text="abc") for key in range(3)})
        assert bounded.run().value == 4
        found = {row.n: row.items for row in sent.poll()}
        assert found == {key: [key, key + 1, key + 2, key + 3, 15, 9, 9] for key in range(3)}
        assert changed.run().value == 8
        (row,) = sent.poll()
        assert row == Row(n=8, items=[300, 1, 1, 0, 1, 0, 0], text="yy")
        assert dict(names.items()) == {Name(name="q"): 3}


def test_held_things_are_given_back():
    """A `return` in the loop's body gives back what is held around the loop, and sends the record that was reserved."""
    needs("helper:ringbuf_reserve_dynptr@syscall")
    bpf = BPF()
    counts = bpf.hash(key=u32, value=u64)
    texts = bpf.byte_ring(size=65536)

    @bpf.syscall()
    def send():
        with texts.reserve(16) as data:
            offset = 0
            data.write(0, 0, u64)
            data.write(8, 0, u64)
            for key in counts:
                data.write(offset, key, u8)
                offset += 1
                if key == 0:
                    return offset
        return -offset

    with bpf:
        counts.update(dict.fromkeys(range(1, 6), 1))
        assert send.run().value == -5
        assert sorted(texts.poll()[0][:5]) == [1, 2, 3, 4, 5]
        counts[0] = 1
        value = send.run().value
        (record,) = texts.poll()
        assert 1 <= value <= 6
        assert record[value - 1] == 0
        assert record[value:] == bytes(16 - value)


def test_kernel_objects_in_a_body():
    """A kernel object that a kfunc gave is held around the loop, and used in it."""
    needs("kfunc:bpf_task_from_pid")
    bpf = BPF()
    counts = bpf.hash(key=u32, value=u64)

    @bpf.syscall()
    def look():
        own = helpers.get_current_pid_tgid()
        with kfunc("bpf_task_from_pid")(own & 0xFFFF_FFFF) as task:
            if task is None:
                return -1
            for key in counts:
                if key == 2:
                    return task.tgid == own >> 32
        return -2

    with bpf:
        assert look.run().value == -2
        counts.update({1: 1, 2: 2})
        assert look.run().value == 1


def test_what_cannot_be_walked():
    """Kinds that the kernel does not walk are refused at the loop, and so is a loop under a lock."""
    needs("helper:for_each_map_elem@syscall")
    bpf = BPF()
    queue, table = bpf.queue(u64, name="waiting"), bpf.hash(key=u32, value=u64)

    @bpf.syscall()
    def walk():
        for each in queue:
            table[each] = 1
        return 0

    with pytest.raises(CompileError, match="a `for` over waiting: the kernel iterates over hashes and arrays only"):
        bpf.specs()
    bpf = BPF()
    guarded, table = bpf.hash(key=u32, value=Guarded), bpf.hash(key=u32, value=u64)

    @bpf.cgroup_skb_ingress()
    def locked():
        entry = guarded.get(1)
        if entry is not None:
            with entry.lock:
                for key in table:
                    entry.count += key
        return 1

    with pytest.raises(CompileError, match="a spin lock is held, and nothing may be called under it") as caught:
        bpf.specs()
    assert caught.value.location.text.strip() == "for key in table:"
