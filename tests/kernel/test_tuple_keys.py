"""Keys and values that are tuples: written by probes, walked, compared, read back as tuples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyebpf import BPF, Struct, char, comm, field, pid, tid, u8, u16, u32, u64, user_string
from pyebpf.errors import CompileError, InvalidValue
from pyebpf.types import type_of
from tests.support.needs import needs

ME = os.getpid()
NAME = Path("/proc/self/comm").read_text().strip()
OPENED = 7


def opened():
    """Open a file seven times."""
    for _ in range(OPENED):
        os.close(os.open("/dev/null", os.O_RDONLY))


def test_counts_by_pairs():
    """`counts[pid(), comm()] += 1`, by look-up, `in`, comparison and loop, and by an aggregation."""
    needs("helper:for_each_map_elem@tracepoint")
    bpf = BPF()
    counts = bpf.hash(key=(u32, char[16]), value=u64)
    kept = bpf.hash((u32, u8), (u64, char[16], u16))
    found = bpf.hash(u32, u64)
    sizes = bpf.log2_hist(key=(u32, char[16]))

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(filename) -> None:
        if pid() != ME or user_string(filename) != "/dev/null":
            return
        counts[pid(), comm()] += 1
        sizes[pid(), comm()].add(9)
        key = (pid(), comm())
        found[0] = counts.get(key, 0)
        kept[tid(), 3] = (pid(), comm(), 515)
        entry = kept.get((tid(), 3))
        if entry is not None and (tid(), 3) in kept and (tid(), 4) not in kept:
            number, name, last = entry
            found[1] = number + last + len(entry)
            found[2] = name == comm()
            found[3] = entry == (pid(), comm(), 515)
            found[4] = (entry[2], entry[0]) < (515, pid())
            found[5] = entry[2]
        del kept[tid(), 4]

    @bpf.tracepoint("syscalls:sys_enter_close")
    def on_close() -> None:
        if pid() == ME:
            for (process, name), calls in counts.items():
                if (process, name) == (pid(), comm()):
                    found[6] = calls

    with bpf:
        opened()
        assert dict(counts) == {(ME, NAME): OPENED}
        assert counts[ME, NAME] == OPENED
        assert (ME, NAME) in counts
        assert list(kept.items()) == [((ME, 3), (ME, NAME, 515))]
        assert dict(found) == {0: OPENED, 1: ME + 515 + 3, 2: 1, 3: 1, 4: 0, 5: 515, 6: OPENED}
        assert {key: value.total for key, value in sizes.items()} == {(ME, NAME): OPENED}
        assert counts.interval() == {(ME, NAME): OPENED}
        counts[1, "other"] = 5
        assert counts.pop((1, "other")) == 5
        with pytest.raises(InvalidValue, match=r"\(1, 2, 3\) is not of type \(u32, char\[16\]\): give a tuple of 2"):
            counts[1, 2, 3] = 1


def test_a_tuple_is_made_before_it_takes_the_place_of_what_it_is_made_of():
    """In an array's entry, which is written in place."""
    bpf = BPF()
    pairs = bpf.array((char[8], char[8], u32), size=2)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open(filename) -> None:
        if pid() == ME and user_string(filename) == "/dev/null":
            one, other, swaps = pairs[0]
            pairs[0] = (other, one, swaps + 1)

    with bpf:
        pairs[0] = ("left", "right", 0)
        opened()
        assert pairs[0] == ("right", "left", OPENED)


def test_tuples_in_records_and_tuples():
    """A field of a Struct, an element of a tuple; padding is zeros, so that equal tuples are equal keys."""

    class Noted(Struct):
        at: u32
        pair: tuple[int, int] = field((u8, u32))

    bpf = BPF()
    notes = bpf.hash(key=(u8, (u16, u8)), value=Noted)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open() -> None:
        if pid() == ME:
            notes[1, (2, 3)] = Noted(at=4, pair=(5, pid()))
            note = notes.get((1, (2, 3)))
            if note is not None and note.pair == (5, pid()):
                note.at += note.pair[0]

    with bpf:
        opened()
        assert dict(notes) == {(1, (2, 3)): Noted(9, (5, ME))}


def test_the_layout_is_a_structs():
    """Natural alignment, zeros between, and a name as it is written."""
    made = type_of((u8, u32, char[3]))
    assert (made.name, made.size, made.align) == ("(u8, u32, char[3])", 12, 4)
    assert made.encode((1, 2, "ab")) == b"\1\0\0\0\2\0\0\0ab\0\0"
    assert made.decode(made.encode((1, 2, "ab"))) == (1, 2, "ab")
    assert type_of((u8,)).name == "(u8,)"
    assert type_of(()) is None
    assert type_of((u8, "u8")) is None


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("counts[1, 2, 3] += 1", r"\(1, 2, 3\) does not fit \(u32, char\[16\]\): give 2 values"),
        ("counts[1] += 1", r"1 does not fit \(u32, char\[16\]\)"),
        ("counts[comm(), 1] += 1", r"comm\(\) is a string, which does not fit u32"),
        ("kept[1] = (1, 2, 3)", r"\(1, 2, 3\) does not fit \(u8, u16\): give 2 values"),
        ("kept[1] = 1", r"1 does not fit \(u8, u16\)"),
        ("plain[0] = kept.get(1)[0]", r"may be None"),
        ("entry[0] = 1", r"is immutable, as in Python: assign a whole tuple, or use a Struct"),
        ("entry[0] += 1", r"is immutable, as in Python"),
        ("entry[2]", None),
        ("entry.first = 1", r"has no attribute first: its elements have numbers"),
        ("one, two, three = entry", r"2 values can't be unpacked into 3 names"),
        ("plain[1, 2] = 3", r"the keys of the map plain are u32: write u32\(…\)"),
    ],
)
def test_what_does_not_fit_is_refused(statement, message):
    """With the type, and how many values it takes."""
    bpf = BPF()
    names = {
        "bpf": bpf,
        "comm": comm,
        "counts": bpf.hash(key=(u32, char[16]), value=u64),
        "kept": bpf.hash(u32, (u8, u16)),
        "plain": bpf.hash(u32, u64),
    }
    text = "@bpf.tracepoint('syscalls:sys_enter_openat')\ndef on_open():\n    entry = kept.get(1)\n"
    text += "    if entry is not None:\n"
    text += f"        {statement if message else f'plain[0] = {statement}'}\n"
    bpf.define(text, names)
    with pytest.raises(CompileError, match=message or "a tuple of 2 is indexed by a number"):
        bpf.__enter__()
