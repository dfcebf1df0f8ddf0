"""bitesize and biopattern: sizes and order of a known workload."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from pyebpf.programs import biopattern, bitesize
from tests.support.command import running
from tests.support.loop import disk_statistics
from tests.support.scsi_debug import SHORT_TRANSFER

ME = os.getpid()
SIZES = {4096: 17, 16384: 29, 131072: 7}
BLOCK = 4096


def buckets(histogram):
    """Counts by the lowest size of a row."""
    return {bucket.low: bucket.count for bucket in histogram.buckets if bucket.count}


def test_sizes_by_process(make_loop_device):
    """17 reads of 4 KiB, 29 of 16 KiB and 7 of 128 KiB, below the name of the thread that issued them."""
    disk, other = make_loop_device(), make_loop_device()
    before = disk_statistics(disk.name)
    with running("bitesize", "--disk", disk.name, "--json") as objects, running("bitesize", "-p", str(ME)) as text:
        for size, count in SIZES.items():
            disk.read(count, size=size)
        other.read(3)
        for tool in (objects, text):
            tool.stop()
    (found,) = objects.objects()
    assert (found["comm"], found["unit"]) == (Path("/proc/self/comm").read_text().strip(), "bytes")
    assert {b["low"]: b["count"] for b in found["buckets"] if b["count"]} == SIZES
    after = disk_statistics(disk.name)
    assert after.reads - before.reads == sum(SIZES.values())
    assert (after.read_sectors - before.read_sectors) * 512 == sum(size * count for size, count in SIZES.items())
    rows = [line.split() for line in text.out.splitlines() if "->" in line]
    assert {int(row[0]): int(row[4]) for row in rows if row[4] != "0"} == {**SIZES, 4096: SIZES[4096] + 3}


def test_a_flush_has_no_bytes(loop):
    """It counts in the row of zero."""
    with bitesize.open(disk=loop.name) as snapshot:
        with loop.path.open("r+b", buffering=0) as device:
            for _ in range(5):
                os.fsync(device.fileno())
        assert sum(buckets(histogram).get(0, 0) for histogram in snapshot()) == 5


def read_blocks(disk, numbers):
    """Read blocks of a disk one after the other, past the page cache."""
    with disk.opened() as read:
        for number in numbers:
            read(number * BLOCK, BLOCK)


def test_sequential_and_random(make_loop_device):
    """Blocks in order are sequential, all but the first; blocks of which none follows another are random."""
    rising, mixed = make_loop_device(), make_loop_device()
    odd = list(range(1, 202, 2))
    random.Random(7).shuffle(odd)
    with running("biopattern", "--json") as objects, running("biopattern") as text:
        before = disk_statistics(rising.name)
        read_blocks(rising, range(53, 154))
        read_blocks(mixed, odd)
        after = disk_statistics(rising.name)
        for tool in (objects, text):
            tool.stop()
    found = {o["disk"]: (o["sequential"], o["random"], o["count"], o["size_bytes"]) for o in objects.objects()}
    assert found[rising.name] == (100, 1, 101, 101 * BLOCK)
    assert found[mixed.name] == (0, 101, 101, 101 * BLOCK)
    assert (after.reads - before.reads, after.read_sectors - before.read_sectors) == (101, 101 * BLOCK // 512)
    rows = {line.split()[0]: line.split()[1:] for line in text.out.splitlines() if line}
    assert rows["DISK"] == ["%RND", "%SEQ", "COUNT", "KBYTES"]
    assert rows[rising.name] == ["0", "99", "101", "404"]
    assert rows[mixed.name] == ["100", "0", "101", "404"]


def test_each_interval_begins_where_the_last_one_ended(loop):
    """The first request may follow the last one of the interval before; a flush between changes nothing."""
    with biopattern.open(disk=loop.name) as snapshot:
        read_blocks(loop, range(1, 8))
        (first,) = snapshot()
        with loop.path.open("r+b", buffering=0) as device:
            os.fsync(device.fileno())
        read_blocks(loop, range(8, 11))
        (second,) = snapshot()
        assert snapshot() == []
    assert [(row.sequential, row.random, row.size) for row in (first, second)] == [
        (6, 1, 7 * BLOCK),
        (3, 0, 3 * BLOCK),
    ]


@pytest.mark.machine(modules=("scsi_debug", "sd_mod"))
def test_parts_of_a_request_count_once(scsi_disk):
    """Reads with gaps between them, of which half are answered in parts, are all random."""
    with biopattern.open(disk=scsi_disk.name) as snapshot:
        scsi_disk.misbehave(SHORT_TRANSFER)
        scsi_disk.device.read(17, size=16384)
        (row,) = snapshot()
    assert (row.sequential, row.random, row.size) == (0, 17, 17 * 16384)
