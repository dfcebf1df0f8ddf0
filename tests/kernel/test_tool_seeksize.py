"""seeksize, biocpu and biostacks: distances, processors and stacks of known requests."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from pyebpf import BPF, KernelObject, cpu, u64
from pyebpf.programs import biocpu, biostacks, seeksize
from pyebpf.programs._block import ACCOUNTING, FLUSH, disk_of
from pyebpf.recording.recording import open_recording
from pyebpf.runtime.loaded import Loaded
from tests.support.command import pyebpf, running
from tests.support.folded import parse_folded
from tests.support.loop import disk_statistics
from tests.support.needs import needs
from tests.support.scsi_debug import SHORT_TRANSFER

READS, WRITES, FLUSHES, BLOCK = 101, 29, 7, 4096


def read_blocks(disk, numbers):
    """Read blocks of a disk one after the other, past the page cache."""
    with disk.opened() as read:
        for number in numbers:
            read(number * BLOCK, BLOCK)


def rows(histogram):
    """Counts by the lowest value of a row."""
    return {bucket.low: bucket.count for bucket in histogram.buckets if bucket.count}


def distances(blocks):
    """The rows of reads of these blocks: sectors from the end of each to the start of the next."""
    moves = [abs(after - before - 1) * BLOCK // 512 for before, after in pairwise(blocks)]
    return dict(Counter(1 << move.bit_length() - 1 if move else 0 for move in moves))


#: Some in order, some with gaps, some backwards.
BLOCKS = [*range(7, 30), *range(1000, 100, -50), 5, 5, 2003, 4000]


def test_distances_by_process_and_by_disk(make_loop_device):
    """The distances of a list of reads, by the process that issued them, and by the disk that completed them."""
    disk, other = make_loop_device(), make_loop_device()
    with (
        running("seeksize", "--disk", disk.name, "--json") as by_process,
        running("seeksize", "-D", "--json") as by_disk,
        running("seeksize", "-D") as text,
    ):
        before = disk_statistics(disk.name)
        for block in BLOCKS:  # in turns: the disks' heads do not know of each other
            read_blocks(disk, [block])
            read_blocks(other, [9])
        after = disk_statistics(disk.name)
        for tool in (by_process, by_disk, text):
            tool.stop()
    assert after.reads - before.reads == len(BLOCKS)
    (found,) = by_process.objects()
    assert (found["comm"], found["unit"]) == (Path("/proc/self/comm").read_text().strip(), "sectors")
    wanted = distances(BLOCKS)
    assert {b["low"]: b["count"] for b in found["buckets"] if b["count"]} == wanted
    disks = {o["disk"]: {b["low"]: b["count"] for b in o["buckets"] if b["count"]} for o in by_disk.objects()}
    assert disks[disk.name] == wanted
    assert disks[other.name] == distances([9] * len(BLOCKS))
    assert f"disk = '{disk.name}'" in text.out.splitlines()


def test_flushes_do_not_move_the_head(loop):
    """A read that follows a read is sequential, whatever is flushed between."""
    for options in ({}, {"by_disk": True}):
        with seeksize.open(disk=loop.name, **options) as snapshot:
            read_blocks(loop, [11])
            with loop.path.open("r+b", buffering=0) as device:
                os.fsync(device.fileno())
            read_blocks(loop, [12])
            assert [rows(each) for each in snapshot()] == [{0: 1}]


@pytest.mark.machine(modules=("scsi_debug", "sd_mod"))
def test_parts_of_a_request_count_once(scsi_disk):
    """Reads with gaps of their own size, of which half are answered in parts: all moves are of that size."""
    with seeksize.open(disk=scsi_disk.name, by_disk=True) as snapshot:
        scsi_disk.misbehave(SHORT_TRANSFER)
        scsi_disk.device.read(17, size=16384)
        (found,) = snapshot()
    assert rows(found) == {32: 16}


def test_completions_by_processor(loop):
    """As many on each processor as a probe of the test's own has seen there."""
    bpf = BPF()
    seen = bpf.hash(key=u64, value=u64)
    name = loop.name

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject) -> None:
        if disk_of(rq).disk_name == name and (rq.__data_len or rq.cmd_flags & 0xFF == FLUSH):
            seen[cpu()] += 1

    with running("biocpu", "-D", "--json") as by_disk, biocpu.open(disk=name) as overall, bpf:
        before = disk_statistics(name)
        loop.read(READS)
        loop.write(WRITES)
        after = disk_statistics(name)
        with loop.path.open("r+b", buffering=0) as device:
            for _ in range(FLUSHES):
                os.fsync(device.fileno())
        by_disk.stop()
        (found,) = overall()
        assert rows(found) == dict(seen.items())
    assert found.total == READS + WRITES + FLUSHES
    assert after.reads + after.writes - before.reads - before.writes == READS + WRITES
    (mine,) = (o for o in by_disk.objects() if o["disk"] == name)
    assert (mine["unit"], {b["low"]: b["count"] for b in mine["buckets"] if b["count"]}) == ("cpu", rows(found))


def test_stacks_of_a_recording(loop, tmp_path):
    """A recording has the time by stack of all its intervals, for folded lines and the like."""
    with Loaded() as loaded:
        if not [name for name in ACCOUNTING if loaded.target().has_function(name)]:
            needs("tracepoint:block:block_io_start")
    path = tmp_path / "io.rec"
    with running("biostacks", "--disk", loop.name, "0.2", "--record", str(path)) as recorded:
        began = time.monotonic_ns()
        loop.read(READS)
        time.sleep(0.5)
        loop.write(WRITES)
        waited = time.monotonic_ns() - began
        recorded.stop()
    found = [each for each in open_recording(str(path)) if each.total]
    assert sum(each.total for each in found) == READS + WRITES
    shown = pyebpf("show", str(path), "-f")
    times = parse_folded(shown.stdout.splitlines())
    least = sum(bucket.low * bucket.count for each in found for bucket in each.rows())
    assert least // 2 <= sum(times.values()) <= waited // 1000
    for kind in ("read_iter", "write_iter"):
        assert any(kind in name for stack in times for name in stack)


def test_latency_by_stack(loop):
    """Reads and flushed writes come by different ways; each way's requests are as many, and as slow, as they were."""
    with Loaded() as loaded:
        functions = [name for name in ACCOUNTING if loaded.target().has_function(name)]
    if not functions:
        needs("tracepoint:block:block_io_start")
    with (
        biostacks.open(disk=loop.name) as snapshot,
        running("biostacks", "-P", "--json", "--disk", loop.name) as objects,
        running("biostacks", "-f", "--disk", loop.name) as folded,
    ):
        began = time.monotonic_ns()
        loop.read(READS)
        loop.write(WRITES)
        waited = time.monotonic_ns() - began
        found = list(snapshot())
        for tool in (objects, folded):
            tool.stop()
    reads = [h for h in found if any(re.search("read_iter", frame) for frame in h.labels["stack"])]
    writes = [h for h in found if any(re.search("write_iter", frame) for frame in h.labels["stack"])]
    assert sum(h.total for h in reads) == READS
    assert sum(h.total for h in writes) == WRITES
    assert {h.unit for h in found} == {"usecs"}
    assert all(re.search("submit_bio|account_io_start", " ".join(h.labels["stack"])) for h in found)
    assert sum(bucket.low * bucket.count for h in found for bucket in h.rows()) <= waited // 1000
    comm = Path("/proc/self/comm").read_text().strip()
    times = parse_folded(folded.out.splitlines())
    assert all(re.search("submit_bio|account_io_start", ";".join(stack)) for stack in times)
    least = sum(bucket.low * bucket.count for h in found for bucket in h.rows())
    assert least // 2 <= sum(time for stack, time in times.items() if stack[0] == comm) <= waited // 1000
    mine = [o for o in objects.objects() if o["comm"] == comm]
    assert sum(b["count"] for o in mine for b in o["buckets"]) == READS + WRITES
    assert all(list(o) == ["time", "comm", "stack", "unit", "buckets"] for o in mine)
