"""Arrays and strings in a context, at indices that each event knows: the verifier wants constant offsets there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from pyebpf import BPF, CompileError, Struct, array, char, field, loop, s64, u8, u32, u64
from pyebpf.script import Script
from tests.support.needs import needs

SIZE = 8


class Question(Struct):
    """What a program is asked."""

    a: u64
    name: str = field(char[21], default="")
    words: tuple[int, ...] = field(u32[SIZE], default=(0,) * SIZE)
    bytes_: bytes = field(u8[5], default=bytes(5))
    found: u64 = 0


def answers(body, questions):
    """Run a syscall program on each question; what is in its record then."""
    bpf = BPF()
    made = bpf.syscall(Question)(body)
    with closing(bpf):
        bpf.load()
        for question in questions:
            yield made.run(question).record


def ask(**values):
    return Question(**{"a": 0, **values})


def test_elements_are_read_and_written_at_run_time_indices():
    """Whatever the type of the array, and however the index is bounded."""
    needs("program:syscall")

    def probe(ctx: Question) -> int:
        ctx.words[ctx.a % 5] = 7
        ctx.words[ctx.a & 7] += 100
        ctx.bytes_[ctx.a % 5] = ctx.words[7 - (ctx.a & 7)]
        total = 0
        for i in range(SIZE):
            total += ctx.words[i] * (i + 1)
        ctx.found = total
        return 0

    for a, question in enumerate(answers(probe, [ask(a=a, words=tuple(range(SIZE))) for a in range(13)])):
        words, bytes_ = list(range(SIZE)), bytearray(5)
        words[a % 5] = 7
        words[a & 7] += 100
        bytes_[a % 5] = words[7 - (a & 7)]
        assert (tuple(question.words), question.bytes_) == (tuple(words), bytes(bytes_))
        assert question.found == sum(word * (i + 1) for i, word in enumerate(words))


def test_an_index_whose_range_ends_within_eight_bytes():
    """The verifier knows the range, so that the store covers a part of a copied slot (seed 40 on Linux 6.18.15)."""
    needs("program:syscall")

    def probe(ctx: Question) -> int:
        place = 0
        for i in range(3):
            if ctx.words[7] == i:
                place = i
        if 0 <= place < 5:
            ctx.words[place] = 99
            ctx.bytes_[place] = 77
        return 0

    for place, question in enumerate(answers(probe, [ask(words=(1, 2, 3, 4, 5, 6, 7, each)) for each in range(3)])):
        words, bytes_ = [1, 2, 3, 4, 5, 6, 7, place], bytearray(5)
        words[place], bytes_[place] = 99, 77
        assert (tuple(question.words), question.bytes_) == (tuple(words), bytes(bytes_))


class Item(Struct):
    """An element of a record."""

    n: s64 = 0


class Asked(Struct):
    """What a program is asked, with records in an array."""

    n: s64 = 0
    items: list[Item] = field(array(Item, 2), default=[Item(), Item()])
    names: list[str] = field(array(char[8], 3), default=["", "", ""])
    found: s64 = 0


def asked(body, **values):
    bpf = BPF()
    made = bpf.syscall(Asked)(body)
    with closing(bpf):
        bpf.load()
        return made.run(Asked(**values)).record


def refusal(body):
    bpf = BPF()
    bpf.syscall(Asked)(body)
    with pytest.raises(CompileError) as caught:
        bpf.specs()
    return str(caught.value)


def test_a_record_at_a_run_time_index_is_what_it_was():
    """Read before and after, and written whole; what is written elsewhere in the meantime is refused, not missed."""
    needs("program:syscall")

    def reads(ctx: Asked) -> int:
        item = ctx.items[ctx.n & 1]
        total = item.n
        ctx.items[ctx.n & 1] = Item(n=100)
        ctx.found = total + ctx.items[ctx.n & 1].n
        return 0

    found = asked(reads, n=1, items=[Item(n=5), Item(n=7)])
    assert (found.found, [each.n for each in found.items]) == (107, [5, 100])

    def stale(ctx: Asked) -> int:
        item = ctx.items[ctx.n & 1]
        ctx.items[1].n = 8
        return item.n

    assert "is used after a write to what it was copied from: copy what you need first" in refusal(stale)

    def again(ctx: Asked) -> int:
        item = ctx.items[ctx.n & 1]
        for i in range(2):
            ctx.found += item.n
            ctx.items[1].n = i
        return 0

    assert "is used after a write" in refusal(again)

    def written(ctx: Asked) -> int:
        ctx.items[ctx.n & 1].n = 8
        return 0

    assert "is a copy here, since its index is known at run time only: assign a whole element" in refusal(written)


def test_a_string_at_a_run_time_index_is_kept():
    """From one iteration of a loop to the next, too."""
    needs("program:syscall")

    def probe(ctx: Asked) -> int:
        before = ctx.names[(ctx.n + 2) % 3]
        for i in range(3):
            name = ctx.names[(ctx.n + i) % 3]
            if name == before:
                ctx.found += 1
            before = name
        return 0

    for names, same in ((["a", "b", "c"], 0), (["a", "a", "b"], 1), (["x", "x", "x"], 3)):
        assert asked(probe, n=4, names=names).found == same


def test_strings_are_measured_indexed_and_searched():
    """Each works on a copy."""
    needs("program:syscall")

    def probe(ctx: Question) -> int:
        ctx.found = len(ctx.name) * 1000
        if ctx.name[ctx.a % 20] == "x":
            ctx.found += 1
        if "by" in ctx.name:
            ctx.found += 10
        if ctx.name.endswith("z"):
            ctx.found += 100
        return 0

    names = ["", "x", "bypass", "12345678901234567890", "xyz", "abyz"]
    for name, question in zip(names, answers(probe, [ask(a=20, name=name) for name in names]), strict=True):
        wanted = len(name) * 1000 + name.startswith("x") + 10 * ("by" in name) + 100 * name.endswith("z")
        assert question.found == wanted, name


def test_an_array_of_a_packets_context_is_indexed():
    """`cb` of struct __sk_buff."""
    bpf = BPF()
    numbers = bpf.array(value=u64, size=2)

    @bpf.cgroup_skb_egress()
    def passed(ctx) -> int:
        numbers[1] = ctx.cb[numbers[0] % 5]
        ctx.cb[numbers[0] % 5] = 3
        return 1

    with closing(bpf):
        bpf.load()
        assert bpf.programs


def test_a_loop_of_no_round_stands_beside_one_over_a_map():
    """Both call functions of the program's own."""
    needs("helper:for_each_map_elem@raw_tracepoint")
    bpf = BPF()
    table = bpf.hash(key=u32, value=u64)
    counts = bpf.array(value=u64, size=2)

    def add(i):
        counts[0] += i

    @bpf.raw_tracepoint("sys_enter")
    def probe() -> None:
        for key, value in table.items():
            counts[1] += key + value
        loop(0, add)

    with closing(bpf):
        bpf.load()
        assert bpf.programs


def test_an_index_far_from_the_number_that_it_was_computed_from():
    """Verifiers since Linux 6.11 know it as that number and a constant, and refuse addresses for the latter's size."""
    needs("program:syscall")

    def probe(ctx: Question) -> int:
        j = u64(ctx.a - 0x59000000)
        if j < 5:
            ctx.bytes_[j] = 9
        k = u64(ctx.a + 0x59000000)
        if k >= 5:
            k = 1
        ctx.bytes_[k] = 3
        if j < 20 and ctx.name[j] == "x":
            ctx.found = 5
        ctx.found += (7, 1, 3)[j if j < 3 else 1]
        return 0

    questions = [ask(a=0x59000002, name="abx"), ask(a=7, name="x"), ask(a=(1 << 64) - 0x59000000 + 4)]
    found = [(question.bytes_, question.found) for question in answers(probe, questions)]
    assert found == [(b"\0\3\x09\0\0", 8), (b"\0\3\0\0\0", 1), (b"\0\0\0\0\3", 1)]


def test_texts_in_the_record_of_a_tracepoint():
    """They have a length, parts, and characters at places known at run time, in Python and in scripts."""
    needs("tracepoint:task:task_rename")
    bpf = BPF()
    found = bpf.hash(key=u64, value=u64)

    @bpf.tracepoint("task:task_rename")
    def renamed(ctx):
        if ctx.newcomm == "slipper":
            size = len(ctx.newcomm)
            found[0] = size
            if ctx.newcomm[size & 3] == "p":
                found[1] = 1
            if "ppe" in ctx.newcomm:
                found[2] = 1
            if "pqe" in ctx.newcomm:
                found[3] = 1

    script = Script(
        'tracepoint:task:task_rename /strcontains(args.newcomm, "lippe")/ { $i = strlen(args.newcomm); '
        "@ = ($i, len(str(args.newcomm)), args.newcomm[$i - 2], strncmp(args.newcomm, args.oldcomm, 9), "
        'strncmp(args.newcomm, args.newcomm, 9), str_concat(args.newcomm, "s")); }'
    )
    comm = Path("/proc/self/comm")
    before = comm.read_text().rstrip("\n")
    with bpf, script:
        try:
            comm.write_text("slipper")
        finally:
            comm.write_text(before)
        assert found.snapshot() == {0: 7, 1: 1, 2: 1}
        assert script["@"].only() == (7, 7, ord("e"), 1, 0, "slippers")
