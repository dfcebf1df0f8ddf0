"""biotop: requests, bytes and latency of a known workload by process, direction and disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from pyebpf.programs import biotop
from tests.support.command import running
from tests.support.loop import disk_statistics
from tests.support.waiting import PATIENCE

ME = os.getpid()
READS, WRITES, OTHERS, SIZE = 17, 29, 41, 8192
READ = (
    "import sys; from pathlib import Path; from tests.support.loop import LoopDevice\n"
    f"LoopDevice(Path(sys.argv[1]), int(sys.argv[2])).read({OTHERS})"
)


def test_requests_by_process_and_direction(loop):
    """17 reads and 29 writes of this process and 41 reads of another, as the kernel's statistics have them in all."""
    major, minor = loop.numbers
    with running("biotop", "--json", "1") as objects, running("biotop", "--disk", loop.name, "60") as text:
        before = disk_statistics(loop.name)
        loop.read(READS, size=SIZE)
        loop.write(WRITES)
        with subprocess.Popen([sys.executable, "-c", READ, loop.path, str(loop.size)], cwd=Path.cwd()) as reader:
            assert reader.wait(PATIENCE) == 0
        after = disk_statistics(loop.name)
        for tool in (objects, text):
            tool.stop()
    found = {}
    for record in objects.objects():
        if record["disk"] == loop.name:
            assert (record["major"], record["minor"]) == (major, minor)
            assert record["latency_ns"] > 0
            key = (record["pid"], record["direction"])
            count, size = found.get(key, (0, 0))
            found[key] = (count + record["count"], size + record["size_bytes"])
    assert found == {
        (ME, "read"): (READS, READS * SIZE),
        (ME, "write"): (WRITES, WRITES * 4096),
        (reader.pid, "read"): (OTHERS, OTHERS * 4096),
    }
    assert after.reads - before.reads == READS + OTHERS
    assert after.writes - before.writes == WRITES
    assert (after.read_sectors - before.read_sectors) * 512 == READS * SIZE + OTHERS * 4096
    load, heading, *lines = [line for line in text.out.splitlines() if line]
    assert load.split()[1] == "loadavg:"
    assert heading.split() == ["PID", "COMM", "D", "MAJ", "MIN", "DISK", "I/O", "Kbytes", "AVGms"]
    assert [(line.split()[0], *line.split()[2:8]) for line in lines] == [
        (str(reader.pid), "R", str(major), str(minor), loop.name, str(OTHERS), str(OTHERS * 4)),
        (str(ME), "R", str(major), str(minor), loop.name, str(READS), str(READS * 8)),
        (str(ME), "W", str(major), str(minor), loop.name, str(WRITES), str(WRITES * 4)),
    ]


def test_the_latency_is_what_the_reader_waited(loop):
    """In all no more than the calls took; an interval without requests has no rows."""
    with biotop.open(disk=loop.name) as snapshot:
        began = time.monotonic_ns()
        loop.read(READS)
        waited = time.monotonic_ns() - began
        (row,) = snapshot()
        assert snapshot() == []
    assert (row.count, row.direction) == (READS, "read")
    assert 0 < row.elapsed < waited
    assert row.average == row.elapsed / READS


def test_one_process_and_the_order(loop):
    """-p leaves out another's requests; -s puts on top what has the most bytes, most requests, or waited longest."""
    mine = {"disk": loop.name, "pid": ME}
    with (
        biotop.open(**mine) as by_bytes,
        biotop.open(sort="io", **mine) as by_requests,
        biotop.open(sort="time", **mine) as by_time,
    ):
        loop.read(READS, size=SIZE)
        loop.write(WRITES)
        with subprocess.Popen([sys.executable, "-c", READ, loop.path, str(loop.size)], cwd=Path.cwd()) as reader:
            assert reader.wait(PATIENCE) == 0
        found = [snapshot() for snapshot in (by_bytes, by_requests, by_time)]
    assert [(row.direction, row.count) for row in found[0]] == [("read", READS), ("write", WRITES)]
    assert [(row.direction, row.count) for row in found[1]] == [("write", WRITES), ("read", READS)]
    times = [row.elapsed for row in found[2]]
    assert times == sorted(times, reverse=True)
    assert len(times) == 2
