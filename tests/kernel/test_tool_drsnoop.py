"""drsnoop: reclaims in a control group whose processes read more than it may keep."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from pyebpf.programs import drsnoop
from tests.support.command import running
from tests.support.loop import CONTROL, loop_device
from tests.support.memory import memory_group
from tests.support.needs import needs

LIMIT, SIZE = 24 << 20, 96 << 20
READ = """
open("/proc/self/comm", "w").write("reads-much")
with open({!r}, "rb") as file:
    while file.read(1 << 16):
        pass
"""


@pytest.fixture
def group():
    needs("attach:tp_btf", f"setting:{CONTROL}")
    with memory_group() as made:
        made.limit(LIMIT)
        yield made


def read_much(group, folder):
    """Read a disk of 96 MiB in the group: its process, and the nanoseconds that it took."""
    with loop_device(folder / "disk", size=SIZE) as device:
        began = time.monotonic_ns()
        with group.start(READ.format(str(device.path))) as process:
            assert process.wait() == 0
        return process.pid, time.monotonic_ns() - began


def test_reclaims_of_a_group(group, tmp_path):
    """Pages are those that had to go, latencies less than the reading; text and JSON agree; without --memcg none."""
    with (
        running("drsnoop", "--memcg", "--json", "--comm", "reads-much") as objects,
        running("drsnoop", "--memcg", "-U", "-n", "reads-much") as text,
        running("drsnoop", "--json", "--comm", "reads-much") as none,
    ):
        pid, took = read_much(group, tmp_path)
        for tool in (objects, text, none):
            tool.stop()
    found = objects.objects()
    assert {(each["pid"], each["comm"]) for each in found} == {(pid, "reads-much")}
    pages = sum(each["reclaimed_pages"] for each in found)
    # The disk's own file may take memory of the group, too.
    assert (SIZE - LIMIT) // mmap.PAGESIZE <= pages <= 2 * SIZE // mmap.PAGESIZE
    assert 0 < sum(each["latency_ns"] for each in found) < took
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["UID", "COMM", "PID", "LAT(ms)", "PAGES"]
    assert [line.split()[:3] + line.split()[4:] for line in lines] == [
        ["0", "reads-much", str(pid), str(each["reclaimed_pages"])] for each in found
    ]
    assert all(float(line.split()[3]) <= took / 1e6 for line in lines)  # each tool has a clock reading of its own
    assert none.objects() == []


def test_one_process(group, tmp_path):
    """Reclaims of others are left out; what is read within the limit needs none."""
    with (
        drsnoop.open(memcg=True, comm="somebody") as others,
        drsnoop.open(memcg=True, tid=os.getpid()) as own,
        drsnoop.open(memcg=True, comm="reads-much") as reclaims,
    ):
        group.limit(LIMIT + SIZE * 2)
        read_much(group, tmp_path)
        assert not reclaims.poll(0.1)
        group.limit(LIMIT)
        read_much(group, tmp_path)
        assert reclaims.poll(0.1)
        assert not others.poll(0)
        assert not own.poll(0)


def test_free_memory(group, tmp_path):
    """-e has the memory that was free, as /proc/meminfo tells it, in bytes, and in text in KiB."""
    needs("variable:vm_zone_stat")
    ours = ("drsnoop", "--memcg", "-e", "-n", "reads-much")
    with running(*ours, "--json") as objects, running(*ours) as text:
        read_much(group, tmp_path)
        meminfo = Path("/proc/meminfo").read_text()
        for tool in (objects, text):
            tool.stop()
    free = int(meminfo.partition("MemFree:")[2].split()[0]) * 1024
    found = [each["free_bytes"] for each in objects.objects()]
    assert found
    assert all(abs(each - free) < 2 * SIZE + (64 << 20) for each in found)
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["COMM", "PID", "LAT(ms)", "PAGES", "FREE(KB)"]
    assert [int(line.split()[-1]) % (mmap.PAGESIZE // 1024) for line in lines] == [0] * len(found)
