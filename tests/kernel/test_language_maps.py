"""Maps in the kernel: what each way of reading and writing does, how much is lost, and that counts are exact."""

from __future__ import annotations

import os

import pytest

from pyebpf import BPF, KernelObject, NotLoaded, Struct, char, current_task, field, has_field, pid, u8, u32, u64
from tests.language.harness import Case, Host, Oldest, Pair
from tests.support.needs import needs

TARGETS = pytest.mark.parametrize("target", [Host(), Oldest()], ids=["host", "oldest"])


ME = os.getpid()


class Tagged(Struct):
    """A value with bytes in it."""

    tag: bytes = field(u8[3])
    number: u64


class Hits(Struct):
    """An entry with two counters."""

    calls: u64
    bits: u64


@TARGETS
def test_augmented_assignment_inserts_zero_first(target):
    needs("isa:atomic")
    body = (
        "signed[w] -= 5\nsigned[w] |= 3\nsigned[w] ^= 1\nsigned[w] &= 0xff\n"
        "counts[w] += s\ncounts[w] += 3\ncounts[w] += -1"
    )
    with Case(body, "w, s").loaded(target) as loaded:
        loaded.run(w=3, s=-7)
        loaded.run(w=4, s=1 << 40)
        expected = ((-5 | 3) ^ 1) & 0xFF
        assert dict(loaded["signed"].items()) == {3: expected, 4: expected}
        assert dict(loaded["counts"].items()) == {3: (1 << 64) - 5, 4: (1 << 40) + 2}
        assert loaded.bpf.dropped == {}


@TARGETS
def test_what_finds_no_room_is_counted_and_nothing_else(target):
    """Three fit; of the others, four insertions and one addition; two look-ups and two overwritings lose nothing."""
    body = """
    for key in (1, 2, 3, 4, 5):
        small[key] += 1
    small[1] = 9
    small[6] = 1
    out[0].r0 = small.add(7, 1)
    out[0].r1 = small.add(2, 9)
    out[0].r2 = 4 in small
    out[0].r3 = small.get(5, 77)
    small[2] += 10
    """
    with Case(body).loaded(target) as loaded:
        assert loaded.run()[:4] == [0, 0, 0, 77]
        assert dict(loaded["small"].items()) == {1: 9, 2: 11, 3: 1}
        assert loaded.bpf.dropped == {"small: map full": 4}


@TARGETS
@pytest.mark.parametrize("index", [8, -1, 1 << 32, (1 << 32) + 3, -(1 << 63)])
def test_an_index_outside_an_array_is_counted_and_never_folds_back_into_it(target, index):
    body = """
    table[s] += 5
    table[s] = 7
    out[0].r0 = table.get(s, 77)
    out[0].r1 = s in table
    x = table.get(s)
    out[0].r2 = x is None
    """
    with Case(body, "s").loaded(target) as loaded:
        assert loaded.run(s=index)[:3] == [77, 0, 1]
        assert loaded.bpf.dropped == {"table: index out of range": 2}
        assert loaded.run(s=3)[:3] == [7, 1, 0]
        assert dict(loaded["table"].items()) == {**dict.fromkeys(range(8), 0), 3: 7}
        assert loaded.bpf.dropped == {"table: index out of range": 2}


@TARGETS
def test_an_arrays_entry_is_a_value_where_the_index_is_proved_inside(target):
    body = """
    table[5] = 19
    out[0].r0 = table[5]
    out[0].r1 = table[w & 7]
    if s in range(8):
        out[0].r2 = table[s]
    if 0 <= s < 8:
        out[0].r3 = table[s]
    """
    with Case(body, "w, s").loaded(target) as loaded:
        assert loaded.run(w=13, s=5)[:4] == [19, 19, 19, 19]


@TARGETS
def test_get_of_integers_is_a_snapshot(target):
    body = """
    counts[w] = 5
    x = counts.get(w)
    counts[w] = 9
    del counts[w]
    if x is None:
        return
    out[0].r0 = x
    """
    with Case(body, "w").loaded(target) as loaded:
        assert loaded.run(w=1)[0] == 5


@TARGETS
def test_get_of_records_is_a_reference_and_storing_copies(target):
    body = """
    pair = Pair(1, 2)
    pairs[w] = pair
    pair.low = 50
    entry = pairs.get(w)
    if entry is None:
        return
    entry.low += 5
    entry.high = 9
    out[0].r0 = entry.low
    out[0].r1 = pair.low
    by_pair[entry] = 7
    entry.high = 11
    pairs[8] = entry
    """
    with Case(body, "w").loaded(target) as loaded:
        assert loaded.run(w=3)[:2] == [6, 50]
        assert dict(loaded["pairs"].items()) == {3: Pair(6, 11), 8: Pair(6, 11)}
        assert dict(loaded["by_pair"].items()) == {Pair(6, 9): 7}


@TARGETS
def test_in_add_delete_and_pop(target):
    body = """
    del counts[w]
    out[0].r0 = w in counts
    out[0].r1 = counts.add(w, 5)
    out[0].r2 = counts.add(w, 6)
    out[0].r3 = w in counts
    x = counts.pop(w)
    if x is not None:
        out[0].r4 = x
    out[0].r5 = w not in counts
    y = counts.pop(w)
    out[0].r6 = y is None
    """
    with Case(body, "w").loaded(target) as loaded:
        assert loaded.run(w=3)[:7] == [0, 1, 0, 1, 5, 1, 1]
        assert loaded.bpf.dropped == {}


@TARGETS
def test_what_pop_gives_of_a_record_is_a_copy(target):
    body = """
    pairs[w] = Pair(1, 2)
    x = pairs.pop(w)
    if x is None:
        return
    pairs[w] = Pair(5, 6)
    out[0].r0 = x.low
    out[0].r1 = x.high
    """
    with Case(body, "w").loaded(target) as loaded:
        assert loaded.run(w=3)[:2] == [1, 2]
        assert dict(loaded["pairs"].items()) == {3: Pair(5, 6)}


@TARGETS
def test_per_cpu_entries_are_summed_in_user_space(target):
    with Case("percpu[2] += 3\npercpu[0] = 8\nout[0].r0 = percpu[2]").loaded(target) as loaded:
        assert [loaded.run()[0] for _ in range(5)] == [3, 6, 9, 12, 15]
        assert dict(loaded["percpu"].items()) == {0: 8, 1: 0, 2: 15, 3: 0}


def test_no_count_is_lost_between_two_processors():
    """Two processes on processors of their own count in the same entries; 1,009 keys are first inserted by either."""
    needs("isa:atomic")
    cpus = sorted(os.sched_getaffinity(0))[:2]
    keys, rounds = 1009, 7
    bpf = BPF()
    counts = bpf.hash(key=u64, value=u64)
    hits = bpf.hash(key=u32, value=Hits)
    table = bpf.array(value=u64, size=2)
    wanted = bpf.array(value=u32)
    call = 95  # umask(2) on x86-64: takes any number and never fails
    if os.uname().machine == "aarch64":
        call = 166

    @bpf.raw_tracepoint("sys_enter")
    def on_call(regs: KernelObject, id: int) -> None:  # noqa: A002 - the kernel's name
        group = current_task().real_parent.tgid
        if id != call or group != wanted[0]:
            return
        key: u64 = regs.di if has_field("struct pt_regs", "di") else regs.regs[0]
        counts[key] += 1
        entry = hits.get(0)
        if entry is not None:
            entry.calls += 1
            entry.bits ^= 1 << (key & 63)
        table[1] += 1

    with bpf:
        wanted[0] = os.getpid()
        hits[0] = Hits(0, 0)
        children = []
        for cpu in cpus:
            child = os.fork()
            if not child:
                os.sched_setaffinity(0, {cpu})
                for _ in range(rounds):
                    for key in range(keys):
                        os.umask(key)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        assert dict(counts.items()) == dict.fromkeys(range(keys), rounds * len(cpus))
        total = keys * rounds * len(cpus)
        assert (hits[0].calls, table[1]) == (total, total)
        assert bpf.dropped == {}


NONE = {
    "if x is None:\n    x = 3\nout[0].r0 = x": (5, 3),
    "if x is None:\n    return\nout[0].r0 = x": (5, 0),
    "if x is not None:\n    out[0].r0 = x": (5, 0),
    "if not (x is None):\n    out[0].r0 = x": (5, 0),
    "if x is not None and x > 4:\n    out[0].r0 = x": (5, 0),
    "if x is None or x < 5:\n    return\nout[0].r0 = x": (5, 0),
    "out[0].r0 = x if x is not None else 3": (5, 3),
    "if x is None:\n    y: u64 = 3\nelse:\n    y = x\nout[0].r0 = y": (5, 3),
    "if x is None:\n    x = 3\nfor j in range(4):\n    x += j\nout[0].r0 = x": (11, 9),
    "out[0].r0 = counts.get(w, 3)": (5, 3),
    "if (y := counts.get(w)) is not None:\n    out[0].r0 = y": (5, 0),
    "for j in range(3):\n    y = counts.get(j)\n    if y is None:\n        continue\n    out[0].r0 += y + j": (6, 6),
    "out[0].r0 = or_three(w)": (5, 3),
}


@TARGETS
@pytest.mark.parametrize("body", NONE)
def test_every_way_to_ask_for_none(target, body):
    """Of a key that is there and one that is not."""
    outside = "def or_three(key):\n    x = counts.get(key)\n    if x is None:\n        return 3\n    return x"
    with Case(f"counts[1] = 5\nx = counts.get(w)\n{body}", "w", outside).loaded(target) as loaded:
        found = []
        for key in (1, 2):
            loaded.reset()
            found.append(loaded.run(w=key)[0])
        assert tuple(found) == NONE[body]


def test_in_user_space_a_map_is_a_mapping():
    """Text to the first NUL and with bytes that are no UTF-8, arrays of u8 as bytes, records, sums over processors."""
    bpf = BPF()
    texts = bpf.hash(key=char[8], value=Tagged, size=7)
    sums = bpf.percpu_array(value=u64, size=2)

    @bpf.raw_tracepoint("sys_enter")
    def on_call() -> None:
        if pid() == ME:
            texts["pid"] = Tagged(tag=b"\1\2\3", number=ME)
            sums[1] += 1

    with pytest.raises(NotLoaded, match=r"map \w+ is not loaded: read and write it inside `with bpf:`|unnamed"):
        len(texts)
    with bpf:
        os.getppid()
        bpf.detach()
        assert texts["pid"] == Tagged(b"\1\2\3", ME)
        texts["caf\u00e9"] = Tagged(b"abc", 1)
        texts["\udcff"] = Tagged(b"abc", 2)
        assert sorted(texts) == ["caf\u00e9", "pid", "\udcff"]
        assert len(texts) == 3
        assert "no" not in texts
        del texts["\udcff"]
        assert texts.get("\udcff") is None
        assert sums[1] == sum(sums.per_cpu[1]) >= 1
        assert sums[0] == 0
        with pytest.raises(KeyError):
            texts["no"]
    with pytest.raises(NotLoaded, match="map texts is not loaded"):
        texts.items()


def test_a_maps_name_is_the_first_that_a_probe_calls_it_by_and_a_hash_has_10240_entries():
    bpf = BPF()
    first = bpf.hash(key=u32, value=u64)
    given = bpf.hash(key=u32, value=u64, name="a name with blanks")
    same = first

    @bpf.raw_tracepoint("sys_enter")
    def on_call() -> None:
        same[1] += 1
        given[2] += 1

    assert [(spec.name, spec.max_entries) for spec in bpf.specs().maps][:2] == [
        ("same", 10_240),
        ("a name with blanks", 10_240),
    ]
