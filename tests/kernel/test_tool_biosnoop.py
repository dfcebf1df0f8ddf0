"""biosnoop: every request of a known workload, with its process, sector, size and latency."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyebpf.programs import biosnoop
from tests.support.aio import Aio
from tests.support.command import running
from tests.support.loop import disk_statistics
from tests.support.needs import unless
from tests.support.scsi_debug import HOST_BUSY, SHORT_TRANSFER
from tests.support.waiting import PATIENCE

ME = os.getpid()
READS, WRITES, SIZE = 17, 29, 8192
WRITE = (
    "import sys; from pathlib import Path; from tests.support.loop import LoopDevice\n"
    f"LoopDevice(Path(sys.argv[1]), int(sys.argv[2])).write({WRITES})"
)


def of_disk(records, disk):
    return [record for record in records if record["disk"] == disk.name]


def test_each_request_of_two_processes(make_loop_device):
    """17 reads of this process and 29 writes of another: disk, sector, bytes, direction and process of each."""
    one, other = make_loop_device(), make_loop_device()
    with (
        running("biosnoop") as text,
        running("biosnoop", "--json") as objects,
        running("biosnoop", "--csv") as rows,
        running("biosnoop", "--disk", one.name, "--json") as filtered,
    ):
        before = disk_statistics(one.name)
        one.read(READS, size=SIZE)
        with subprocess.Popen([sys.executable, "-c", WRITE, other.path, str(other.size)], cwd=Path.cwd()) as writer:
            assert writer.wait(PATIENCE) == 0
        after = disk_statistics(one.name)
        for tool in (text, objects, rows, filtered):
            tool.stop()
    reads, writes = of_disk(objects.objects(), one), of_disk(objects.objects(), other)
    assert [(r["pid"], r["operation"], r["direction"], r["size_bytes"]) for r in reads] == [
        (ME, "Read", "read", SIZE)
    ] * READS
    assert [r["sector"] for r in reads] == [number * 2 * SIZE // 512 for number in range(READS)]
    assert {(w["pid"], w["operation"], w["direction"], w["size_bytes"]) for w in writes} == {
        (writer.pid, "Write", "write", 4096)
    }
    assert len(writes) == WRITES
    # The kernel's own count of the disk's reads, and of their sectors.
    assert after.reads - before.reads == READS
    assert (after.read_sectors - before.read_sectors) * 512 == READS * SIZE
    assert [(r["sector"], r["latency_ns"] > 0) for r in filtered.objects()] == [(r["sector"], True) for r in reads]
    assert [(r["sector"], r["size_bytes"]) for r in rows.rows() if r["disk"] == one.name] == [
        (str(r["sector"]), str(SIZE)) for r in reads
    ]
    assert list(rows.rows()[0]) == [
        "time", "comm", "pid", "disk", "operation", "direction", "sector", "size_bytes", "queued_ns", "latency_ns",
    ]  # fmt: skip
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "LAT(ms)"]
    mine = [line.split() for line in lines if line.split()[-5] == one.name]
    assert [(line[-4], line[-3], line[-2]) for line in mine] == [("R", str(r["sector"]), str(SIZE)) for r in reads]


def test_latency_is_what_the_reader_saw(loop):
    """Each read waits as long as its request was queued and served, and not much longer in all."""
    with biosnoop.open(disk=loop.name) as requests:
        calls = []
        for _ in range(READS):
            began = time.monotonic_ns()
            loop.read(1)
            calls.append((began, time.monotonic_ns()))
        found = [r for r in requests.poll(1.0) if r.operation == "Read"]
    assert len(found) == READS
    for request, (began, ended) in zip(found, calls, strict=True):
        assert began < request.time - request.elapsed - request.queued
        assert request.time < ended


def test_the_shortest_latency(loop):
    """-m leaves out what took less: all of a minute, nothing of a nanosecond."""
    with biosnoop.open(disk=loop.name, minimum=60_000) as none, biosnoop.open(disk=loop.name, minimum=1e-6) as requests:
        loop.read(READS)
        found = [r for r in requests.poll(1.0) if r.letter == "R"]
        assert list(none.poll(0)) == []
    assert len(found) == READS


def test_the_pattern(loop):
    """The first read is random, those behind it sequential; so again from the start."""
    with (
        running("biosnoop", "-P", "--json", "--disk", loop.name) as objects,
        running("biosnoop", "-P", "--disk", loop.name) as text,
    ):
        with loop.opened() as read:
            for number in [*range(READS)] * 2:
                read(number * SIZE, SIZE)
        for tool in (objects, text):
            tool.stop()
    expected = (["random"] + ["sequential"] * (READS - 1)) * 2
    assert [each["pattern"] for each in objects.objects() if each["operation"] == "Read"] == expected
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "P", "LAT(ms)"]
    letters = [line.split()[-2] for line in lines if line.split()[-5] == "R"]
    assert letters == [pattern[0].upper() for pattern in expected]


def test_flushes(loop):
    """A flush has no sector and no bytes, and counts once."""
    with biosnoop.open(disk=loop.name) as requests:
        with loop.path.open("r+b", buffering=0) as device:
            for _ in range(5):
                os.fsync(device.fileno())
        found = list(requests.poll(1.0))
    assert [(r.letter, r.sector, r.size) for r in found] == [("F", None, 0)] * 5


def test_merged_writes_have_one_line(loop):
    """Neighbouring writes that the kernel merges are as many lines as its own statistics say, with all their bytes."""
    device = os.open(loop.path, os.O_RDWR | os.O_DIRECT)
    try:
        before = disk_statistics(loop.name)
        with biosnoop.open(disk=loop.name) as requests:
            for _ in range(3):
                Aio(device).write(8)
            found = list(requests.poll(1.0))
        after = disk_statistics(loop.name)
    finally:
        os.close(device)
    assert len(found) == after.writes - before.writes
    assert sum(r.size for r in found) == 3 * 8 * 4096
    assert {r.pid for r in found} == {ME}
    unless(len(found) < 24, "setting:merged-writes")  # Linux 5.10 sends each on its own


def test_a_stacked_device(loop):
    """A disk in a file: what is written to it is written to the disk below, by a thread of the kernel."""
    with biosnoop.open() as requests:
        loop.write(WRITES)
        with loop.path.open("r+b", buffering=0) as device:
            os.fsync(device.fileno())
        found = list(requests.poll(1.0))
    assert sum(r.disk == loop.name and r.letter == "W" and r.pid == ME for r in found) == WRITES
    below = [r for r in found if r.disk != loop.name and not r.disk.startswith("loop") and r.pid != ME]
    unless(any(r.letter == "W" for r in below), "setting:files-on-a-disk")  # a machine's files are in its memory
    assert sum(r.size for r in below if r.letter == "W") >= WRITES * 4096


@pytest.mark.machine(modules=("scsi_debug", "sd_mod"))
@pytest.mark.parametrize("how", [SHORT_TRANSFER, HOST_BUSY])
def test_partial_completions_and_requeues_have_one_line(scsi_disk, how):
    """A read that the device answers in parts, or sends back, is one line, with all its bytes and its first sector."""
    with biosnoop.open(disk=scsi_disk.name) as requests:
        scsi_disk.misbehave(how)
        scsi_disk.device.read(READS, size=16384)
        found = [r for r in requests.poll(1.0) if r.operation == "Read"]
    assert [(r.sector, r.size, r.pid) for r in found] == [(n * 64, 16384, ME) for n in range(READS)]
