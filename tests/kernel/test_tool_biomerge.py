"""biomerge: merges of a known workload, as the kernel's own statistics count them, and how long they go on."""

from __future__ import annotations

import os
import time

import pytest

from pyebpf.programs import biomerge
from tests.support.aio import Aio
from tests.support.command import running
from tests.support.loop import disk_statistics
from tests.support.needs import unless

BLOCKS, ROUNDS = 8, 5


@pytest.fixture
def device(loop):
    """A descriptor for direct writes to the loop device."""
    found = os.open(loop.path, os.O_RDWR | os.O_DIRECT)
    yield found
    os.close(found)


def merged_writes(before, after):
    """Merges that the kernel counted; the test is skipped where it merges none: Linux 5.10 sends each on its own."""
    merged = after.merged_writes - before.merged_writes
    unless(merged > 0, "setting:merged-writes")
    return merged


@pytest.mark.parametrize("falling", [False, True])
def test_counts(loop, device, falling):
    """Blocks in rising order are merged behind, in falling order before: as many as /sys/block counts."""
    with (
        running("biomerge", "-c", "--json") as objects,
        running("biomerge", "-c", "--disk", loop.name) as text,
        biomerge.open(counts=True, disk=loop.name) as snapshot,
    ):
        before = disk_statistics(loop.name)
        for _ in range(ROUNDS):
            Aio(device).write(BLOCKS, falling=falling)
        after = disk_statistics(loop.name)
        rows = snapshot()
        for tool in (objects, text):
            tool.stop()
    merged = merged_writes(before, after)
    assert merged + after.writes - before.writes == ROUNDS * BLOCKS
    (found,) = (o for o in objects.objects() if o["disk"] == loop.name)
    del found["time"]
    assert found == {
        "disk": loop.name, "back": 0 if falling else merged, "front": merged if falling else 0, "requests": 0,
    }  # fmt: skip
    assert [(row.disk, row.back, row.front, row.requests) for row in rows] == [tuple(found.values())]
    heading, line = [each.split() for each in text.out.splitlines() if each]
    assert heading == ["DISK", "BACK", "FRONT", "REQUEST"]
    assert line == list(map(str, found.values()))


@pytest.mark.parametrize("falling", [False, True])
def test_durations(loop, device, falling):
    """A request that others were merged into counts once, with no longer than its writes took; lone ones do not."""
    with biomerge.open(disk=loop.name) as snapshot, running("biomerge", "--json") as objects:
        loop.write(17)
        before = disk_statistics(loop.name)
        began = time.monotonic_ns()
        for _ in range(ROUNDS):
            Aio(device).write(BLOCKS, falling=falling)
        waited = time.monotonic_ns() - began
        after = disk_statistics(loop.name)
        histograms = list(snapshot())
        objects.stop()
    merged_writes(before, after)
    (found,) = histograms
    assert found.unit == "usecs"
    # Each round's blocks are one request, and so is what a busy machine split: some of these may have nothing merged.
    assert ROUNDS <= found.total <= after.writes - before.writes
    assert sum(bucket.low * bucket.count for bucket in found.rows()) <= waited // 1000
    (mine,) = (o for o in objects.objects() if o["disk"] == loop.name)
    assert sum(b["count"] for b in mine["buckets"]) == found.total
