"""runqlen: processes that compete for one processor."""

from __future__ import annotations

import os
import time

import pytest

from pyebpf.programs import runqlen
from tests.support.command import running
from tests.support.scheduling import share_a_processor

BUSY_ONES, SECONDS, HZ = 4, 0.15, 199


@pytest.fixture
def processor():
    return max(os.sched_getaffinity(0))


def busy(processor):
    """Let four processes compete for the processor until they end."""
    share_a_processor(processor, SECONDS, BUSY_ONES)


def test_lengths(processor):
    """While four are busy on a processor three wait: with -C its samples have that length."""
    began = time.monotonic()  # before the first one samples: the other takes its time to attach
    with runqlen.open(by_cpu=True, frequency=HZ) as of_each, runqlen.open(frequency=HZ) as of_all:
        busy(processor)
        elapsed = time.monotonic() - began
        found = {each.labels["cpu"]: each for each in of_each()}
        (whole,) = of_all()
    lengths = found[processor]
    waiting = sum(bucket.count for bucket in lengths.buckets if bucket.low is not None and bucket.low >= BUSY_ONES - 1)
    # They start one after the other, and end so.
    assert waiting >= 0.5 * SECONDS * BUSY_ONES * HZ * 0.5
    assert lengths.total <= 1.1 * HZ * elapsed + 1
    assert whole.unit == "runqlen"
    assert whole.total <= (1.1 * HZ * elapsed + 1) * os.cpu_count()
    assert all(each.unit == "runqlen" for each in found.values())


def test_occupancy(processor):
    """-O is the share of samples in which threads waited, of all processors or with -C of each."""
    with (
        running("runqlen", "-O", "-C", "--json") as objects,
        running("runqlen", "-O", "-C") as text,
        running("runqlen", "-O") as whole,
    ):
        busy(processor)
        for tool in (objects, text, whole):
            tool.stop()
    found = {each["cpu"]: each["occupancy_ratio"] for each in objects.objects()}
    assert 0.1 < found[processor] <= 1
    assert text.out.split()[:2] == ["CPU", "RUNQOCC"]
    assert dict(line.split() for line in text.out.splitlines()[2:]).keys() == set(map(str, found))
    heading, share = whole.out.split()
    assert heading == "RUNQOCC"
    assert 0 < float(share.removesuffix("%")) <= 100
