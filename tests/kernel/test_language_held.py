"""Reservations, dynptrs and maps in names that are given under run-time conditions and in run-time loops."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, Struct, VerifierError, dynptr, s64, u32, u64
from tests.support.needs import needs
from tests.support.release import kernel_release


class Pair(Struct):
    low: s64
    high: s64


def numbers(ring):
    """The first eight bytes of each record that is there."""
    return [int.from_bytes(record[:8], "little") for record in ring.poll(0)]


@pytest.mark.parametrize(("rounds", "expected"), [(0, [7]), (1, [0, 7]), (5, [0, 1, 7])])
def test_reservations_under_conditions_and_in_loops(rounds, expected):
    """Each round reserves anew; `break` and `return` send what is reserved."""
    needs("helper:ringbuf_reserve_dynptr@syscall")
    bpf = BPF()
    texts = bpf.byte_ring(size=65536)
    limit = bpf.array(value=u64)

    @bpf.syscall()
    def program():
        for i in range(limit[0] & 7):
            with texts.reserve(8) as data:
                data.write(0, i, u64)
                if i == 1:
                    break
        if limit[0] < 100:
            with texts.reserve(16) as data:
                data.write(0, 7, u64)
                data.write(8, 1, u64)
                return 1
        return 0

    with bpf:
        limit[0] = rounds
        assert program.run().value == 1
        assert numbers(texts) == expected


def test_reservations_in_a_loop_over_a_map():
    """Each entry's body reserves its own, in a loop inside another, too."""
    needs("helper:ringbuf_reserve_dynptr@syscall")
    bpf = BPF()
    texts = bpf.byte_ring(size=65536)
    table = bpf.hash(key=u32, value=u64)

    @bpf.syscall()
    def program():
        for key, value in table.items():
            if value > 1:
                with texts.reserve(8) as data:
                    data.write(0, key, u64)
            for other in table:
                with texts.reserve(8) as data:
                    data.write(0, 100 * key + other, u64)
        return 0

    with bpf:
        table.update({1: 1, 2: 2})
        program.run()
        assert sorted(numbers(texts)) == [2, 101, 102, 201, 202]


def test_dynptrs_of_entries_that_may_be_none():
    """Made where the entry is known to be there, in each round.

    Since Linux commit 379d4ba831cf ("bpf: Allow reinitializing unreferenced dynptr stack slots") (v6.3): before, the
    verifier refuses the second round, and the error says why.
    """
    needs("helper:dynptr_from_mem@syscall")
    bpf = BPF()
    pairs = bpf.hash(key=u32, value=Pair, name="pairs")

    @bpf.syscall()
    def program():
        found = 0
        for key in range(4):
            entry = pairs.get(key)
            if entry is not None:
                data = dynptr(entry)
                found += data.write(8, key * 10, u64)
        return found

    if kernel_release() < (6, 3):
        with pytest.raises(VerifierError, match=r"Linux before 6\.3 makes a dynptr once at its place"):
            bpf.load()
        return
    with bpf:
        pairs.update({1: Pair(1, 1), 3: Pair(3, 3)})
        assert program.run().value == 2
        assert dict(pairs.items()) == {1: Pair(1, 10), 3: Pair(3, 30)}


def test_a_map_has_another_name():
    """Where every path gives the same one; else it is said that there are two."""
    needs("program:syscall")
    bpf = BPF()
    small = bpf.hash(key=u32, value=u64, name="small")

    @bpf.syscall()
    def program():
        n = 0
        for key in range(3):
            table = small
            if key > 1:
                table[key] += 5
                n += s64(table.get(key, 0))
        return n

    with bpf:
        assert program.run().value == 5
        assert dict(small.items()) == {2: 5}
    bpf = BPF()
    first, second = bpf.hash(key=u32, value=u64, name="first"), bpf.hash(key=u32, value=u64, name="second")

    @bpf.syscall()
    def either():
        table = first
        if first.get(1, 0) > 3:
            table = second
        table[1] += 1
        return 0

    with pytest.raises(CompileError, match="table may refer to the map first or the map second here"):
        bpf.specs()


@pytest.mark.parametrize("looping", [False, True])
def test_what_is_sent_has_no_name_any_more(looping):
    """After its `with`, by itself or in a loop; another `with` takes the name again."""
    needs("helper:ringbuf_reserve_dynptr@syscall")
    bpf = BPF()
    texts = bpf.byte_ring(size=65536)

    def plain():
        with texts.reserve(8) as data:
            data.write(0, 1, u64)
        with texts.reserve(8) as data:
            data.write(0, 2, u64)
        return data.write(0, 3, u64)

    def rounds():
        found = 0
        for i in range(3):
            with texts.reserve(8) as data:
                data.write(0, i, u64)
            found += data.write(0, 3, u64)
        return found

    bpf.syscall()(rounds if looping else plain)
    with pytest.raises(CompileError, match="data is no longer valid after its `with`: use it inside") as caught:
        bpf.specs()
    assert "data.write(0, 3, u64)" in caught.value.location.text
