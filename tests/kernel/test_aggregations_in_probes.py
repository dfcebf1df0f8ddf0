"""Aggregations as people write them: declared by a BPF, added to by a probe, read in Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf import BPF, Struct, char, comm, cpu, field, helpers, pid, u32, u64
from pyebpf.aggregations import Stats
from pyebpf.kernel.cpus import online_cpus
from tests.support.needs import needs

if TYPE_CHECKING:
    from collections.abc import Callable


#: Found now: reading it opens files, which seeks in them.
CPUS = online_cpus()[:2]


class Place(Struct):
    cpu: u32
    command: str = field(char[16])


class Number(Struct):
    value: u64


def seek(offsets: list[int]) -> None:
    """One system call an offset, each on a processor in turn."""
    allowed = os.sched_getaffinity(0)
    file = os.open("/proc/self/maps", os.O_RDONLY)
    try:
        for index, offset in enumerate(offsets):
            os.sched_setaffinity(0, {CPUS[index % len(CPUS)]})
            os.lseek(file, offset, os.SEEK_SET)
    finally:
        os.close(file)
        os.sched_setaffinity(0, allowed)


def test_every_kind_counts_a_known_workload_exactly() -> None:
    """23 seeks over two processors, then 7 more for the interval; nothing is lost."""
    bpf, me = BPF(), os.getpid()
    by_command = bpf.log2_hist(key=char[16], unit="bytes", label="command")
    by_place = bpf.linear_hist(0, 100, 10, key=Place)
    fine = bpf.log_linear_hist(3)
    calls = bpf.counter(key=u32)
    distance = bpf.total()
    least, greatest = bpf.minimum(), bpf.maximum(key=u32)
    summary = bpf.stats(key=u32, name="summary")

    @bpf.tracepoint("syscalls:sys_enter_lseek")
    def on_seek(offset: int) -> None:
        if pid() != me:
            return
        by_command[comm()].add(offset)
        by_place[Place(cpu=cpu(), command=comm())].add(offset)
        fine.add(offset)
        calls[helpers.get_smp_processor_id()].add()
        calls[1000].add(3)
        distance.add(offset)
        least.add(offset)
        greatest[offset % 2].add(offset)
        summary[0].add(offset)

    first, second = [5 * i for i in range(23)], [1000 + i for i in range(7)]
    own = Path("/proc/self/comm").read_text().rstrip("\n")
    with bpf:
        seek(first)
        assert by_command[own].total == 23
        assert by_command[own].heading() == f"command = '{own}'"
        assert {place: h.total for place, h in by_place.items()} == {
            Place(number, own): len(first[index :: len(CPUS)]) for index, number in enumerate(CPUS)
        }
        assert fine.snapshot().total == 23
        assert calls[1000] == 69
        assert sum(count for number, count in calls.items() if number in CPUS) == 23
        assert distance.snapshot() == sum(first)
        assert least.snapshot() == 0
        assert dict(greatest) == {0: 110, 1: 105}
        assert dict(summary) == {0: Stats(23, sum(first), 0, 110)}
        intervals: list[Callable[[], object]] = [
            by_command.interval,
            fine.interval,
            distance.interval,
            summary.interval,
        ]
        for each in intervals:
            each()
        seek(second)
        assert [(b.low, b.high, b.count) for b in by_command.interval()[own].buckets if b.count] == [(512, 1023, 7)]
        assert fine.interval().total == 7
        assert distance.interval() == sum(second)
        assert summary.interval() == {0: Stats(7, sum(second))}
        assert bpf["summary"] is summary
        assert bpf.dropped == {}


def test_keys_beyond_the_size_are_in_bpf_lost() -> None:
    """Room for 5 of 23 keys: 18 losses, under the map's name."""
    bpf, me = BPF(), os.getpid()
    lengths = bpf.log2_hist(key=u32, size=5, name="lengths")

    @bpf.tracepoint("syscalls:sys_enter_lseek")
    def on_seek(offset: int) -> None:
        if pid() == me:
            lengths[offset].add(offset)

    with bpf:
        seek(list(range(23)))
        assert sorted(lengths) == [0, 1, 2, 3, 4]
        assert bpf.dropped == {"lengths: map full": 18}


def test_numbers_of_2_to_the_63_and_more() -> None:
    """Sums wrap around, extremes stop at 2**63 - 1, counts and histograms take them as they are."""
    needs("program:syscall")
    bpf = BPF()
    least, greatest, total = bpf.minimum(), bpf.maximum(), bpf.total()
    summary, sizes, calls = bpf.stats(), bpf.log2_hist(), bpf.counter()

    @bpf.syscall(Number)
    def on_run(ctx: Number) -> int:
        value = ctx.value
        least.add(value)
        greatest.add(value)
        total.add(value)
        summary.add(value)
        sizes.add(value)
        calls.add(value)
        return 0

    with bpf:
        for value in (2**63 + 5, 2**63):
            on_run.run(Number(value=value))
        assert (least.snapshot(), greatest.snapshot(), total.snapshot()) == (2**63 - 1, 2**63 - 1, 5)
        found = summary.snapshot()
        assert (found.count, found.total, found.minimum, found.maximum) == (2, 5, 2**63 - 1, 2**63 - 1)
        assert [(b.low, b.high, b.count) for b in sizes.snapshot().buckets if b.count] == [(2**63, 2**64 - 1, 2)]
        assert calls.snapshot() == 5
        on_run.run(Number(value=7))
        assert (least.snapshot(), greatest.snapshot()) == (7, 2**63 - 1)
