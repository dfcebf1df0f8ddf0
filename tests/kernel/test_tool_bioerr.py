"""bioerr, biotimeout and iosched: requests that fail, that time out, and that wait in a scheduler's queue."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from pyebpf.programs import bioerr, biotimeout, iosched
from tests.support.command import running
from tests.support.loop import disk_statistics, sealed_loop_device
from tests.support.needs import needs, unless
from tests.support.scsi_debug import BAD_SECTORS, MEDIUM_ERROR, TIMEOUT

READS, FAILURES, SIZE = 17, 29, 8192
#: include/uapi/linux/fs.h
BLKDISCARD = 0x1277


@pytest.fixture
def sealed():
    """A disk whose writes fail."""
    needs("setting:/dev/loop-control")
    with sealed_loop_device() as disk:
        yield disk


def fail(disk):
    """Let 29 writes of a disk fail."""
    for _ in range(FAILURES):
        with pytest.raises(OSError, match="Input/output error"):
            disk.write(1, size=SIZE)


def test_writes_that_fail(sealed, loop):
    """29 writes that fail are 29 lines with EIO; reads, and another disk's writes, which do not, are none."""
    with (
        running("bioerr", "--disk", sealed.name) as text,
        running("bioerr", "--json") as objects,
        bioerr.open(disk=loop.name) as others,
    ):
        before = disk_statistics(sealed.name)
        sealed.read(READS)
        loop.write(READS)
        fail(sealed)
        after = disk_statistics(sealed.name)
        assert list(others.poll(0.1)) == []
        for tool in (text, objects):
            tool.stop()
    found = [o for o in objects.objects() if o["disk"] == sealed.name]
    assert [(o["operation"], o["sector"], o["size_bytes"], o["error"]) for o in found] == [
        ("Write", 0, SIZE, "EIO")
    ] * FAILURES
    assert after.writes - before.writes == FAILURES
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "DISK", "T", "SECTOR", "BYTES", "ERROR"]
    assert [line.split()[1:] for line in lines] == [[sealed.name, "W", "0", str(SIZE), "EIO"]] * FAILURES


@pytest.mark.machine(modules=("scsi_debug", "sd_mod"))
def test_a_bad_medium(scsi_disk):
    """Sectors that cannot be read are ENODATA, and named by their number."""
    first, _ = BAD_SECTORS
    block = first // 8
    with bioerr.open(disk=scsi_disk.name) as failures:
        scsi_disk.misbehave(MEDIUM_ERROR, 1)
        with scsi_disk.device.opened() as read:
            read((block - 2) * 4096, 4096)
            with pytest.raises(OSError, match=r"Input/output error|No data available"):
                read(block * 4096, 4096)
        found = list(failures.poll(1.0))
    assert {(f.letter, f.error) for f in found} == {("R", "ENODATA")}
    assert all(block * 8 <= f.sector <= first for f in found)
    assert found


@pytest.mark.machine(modules=("scsi_debug", "sd_mod"))
def test_timeouts(scsi_disk):
    """A read that is not answered in a second is tried again: a line, with that second; those that are, are none."""
    with biotimeout.open(disk=scsi_disk.name) as timeouts, running("biotimeout", "--json") as objects:
        scsi_disk.device.read(READS)
        scsi_disk.set_timeout(1)
        scsi_disk.misbehave(TIMEOUT)
        began = time.monotonic_ns()
        scsi_disk.device.read(2, size=SIZE)  # the second is not answered, when it is tried again, it is
        waited = time.monotonic_ns() - began
        (found,) = timeouts.poll(1.0)
        objects.stop()
    assert (found.letter, found.sector, found.size, found.disk) == ("R", 2 * SIZE // 512, SIZE, scsi_disk.name)
    assert 900_000_000 < found.waited < waited
    (record,) = objects.objects()
    assert (record["outcome"], record["error"], record["size_bytes"]) == ("requeued", None, SIZE)


def test_nothing_times_out(sealed):
    """Errors of another kind are no timeouts."""
    with biotimeout.open() as timeouts:
        sealed.read(READS)
        fail(sealed)
        assert [t for t in timeouts.poll(0.5) if t.disk == sealed.name] == []


def test_names_of_errors():
    """Both forms of a status, and one that is not known."""
    parts = {"time": 0, "waited": 0, "position": 0, "size": 0, "flags": 0, "requeued": 0, "disk": ""}
    named = {status: bioerr.Ended(status=status, **parts).error for status in (0, 2, 10, -errno.EIO, 17, 99)}
    assert named == {0: None, 2: "ETIMEDOUT", 10: "EIO", -errno.EIO: "EIO", 17: "ENODEV", 99: "EIO"}


def schedulers(disk):
    """Those that the kernel has for a disk."""
    words = Path(f"/sys/block/{disk.name}/queue/scheduler").read_text().split()
    return [word.strip("[]") for word in words if word != "none" and word != "[none]"]


def test_waits_by_scheduler(loop):
    """17 reads by each scheduler that the kernel has, each below its name; the waits are no longer than the reads."""
    names = schedulers(loop)
    unless(names, "module:mq-deadline")
    with (
        running("iosched", "--disk", loop.name, "--json") as objects,
        iosched.open(disk=loop.name, milliseconds=True) as milliseconds,
        iosched.open(disk=loop.name) as snapshot,
    ):
        before = disk_statistics(loop.name)
        for name in names:
            with loop.scheduler(name):
                began = time.monotonic_ns()
                loop.read(READS)
                waited = time.monotonic_ns() - began
            (found,) = snapshot()
            assert (found.labels, found.total, found.unit) == ({"scheduler": name}, READS, "usecs")
            assert sum(bucket.low * bucket.count for bucket in found.rows()) <= waited // 1000
        after = disk_statistics(loop.name)
        assert {h.labels["scheduler"]: (h.total, h.unit) for h in milliseconds()} == dict.fromkeys(
            names, (READS, "msecs")
        )
        objects.stop()
    assert after.reads - before.reads == READS * len(names)
    totals = {o["scheduler"]: sum(b["count"] for b in o["buckets"]) for o in objects.objects()}
    assert totals == dict.fromkeys(names, READS)
