"""scsilatency, scsiresult and mdflush: commands of a SCSI disk and flushes of an array, counted exactly."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from pyebpf.programs import mdflush, scsilatency, scsiresult
from pyebpf.programs._scsi import UNTYPED, host_byte_name, opcode_name, status_byte_name
from tests.support.command import pyebpf, running
from tests.support.needs import needs, unless
from tests.support.scsi_debug import BAD_SECTORS, HOST_BUSY, MEDIUM_ERROR
from tests.support.waiting import wait_until

READS, WRITES, FLUSHES = 101, 53, 7
SCSI_MODULES = ("scsi_debug", "sd_mod")


def counts(records):
    """Commands by their names."""
    return {record["opcode"]: sum(bucket["count"] for bucket in record["buckets"]) for record in records}


def flush(path, times):
    """Have a device empty its cache."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        for _ in range(times):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.machine(modules=SCSI_MODULES)
def test_commands_by_opcode(scsi_disk):
    """101 reads, 53 writes and 7 flushes, as text and JSON; the same number of results, all good."""
    needs("setting:/sys/kernel/btf/scsi_mod")
    device = scsi_disk.device
    with (
        running("scsilatency", "--json") as objects,
        running("scsilatency", "-m") as text,
        running("scsiresult", "--json") as results,
    ):
        device.read(READS)
        device.write(WRITES)
        flush(device.path, FLUSHES)
        for tool in (objects, text, results):
            tool.stop()
    assert counts(objects.objects()) == {"READ_10": READS, "WRITE_10": WRITES, "SYNCHRONIZE_CACHE": FLUSHES}
    assert {record["unit"] for record in objects.objects()} == {"usecs"}
    assert [line for line in text.out.splitlines() if line.startswith("opcode")] == [
        f"opcode = '{name}'" for name in ("SYNCHRONIZE_CACHE", "WRITE_10", "READ_10")
    ]
    assert [(r["host"], r["status"], r["count"]) for r in results.objects()] == [
        ("DID_OK", "SAM_STAT_GOOD", READS + WRITES + FLUSHES)
    ]


@pytest.mark.machine(modules=SCSI_MODULES)
def test_results(scsi_disk):
    """A sector that cannot be read is a CHECK CONDITION for each try; in intervals of their own."""
    block = BAD_SECTORS[0] // 8
    with scsiresult.open() as snapshot, scsi_disk.device.opened() as read:
        read(0, 4096)
        first = {(row.host, row.status): row.count for row in snapshot()}
        scsi_disk.misbehave(MEDIUM_ERROR, 0)
        with pytest.raises(OSError, match=r"Input/output error|No data available"):
            read(block * 4096, 4096)
        second = {(row.host, row.status): row.count for row in snapshot()}
        assert list(snapshot()) == []
    assert first == {("DID_OK", "SAM_STAT_GOOD"): 1}
    assert set(second) == {("DID_OK", "SAM_STAT_CHECK_CONDITION")}


@pytest.mark.machine(modules=SCSI_MODULES)
def test_a_module_without_types(scsi_disk):
    """Before Linux 5.11 types of modules are not known: one line says so."""
    unless(not Path("/sys/kernel/btf/scsi_mod").exists(), "setting:no-/sys/kernel/btf/scsi_mod")
    done = pyebpf("scsilatency")
    assert (done.returncode, done.stderr) == (1, f"pyebpf scsilatency: {UNTYPED}\n")


@pytest.mark.machine(modules=SCSI_MODULES)
def test_what_the_driver_does_not_take(scsi_disk):
    """Reads that the driver sends back count once, when they are done."""
    needs("setting:/sys/kernel/btf/scsi_mod")
    with scsilatency.open() as snapshot:
        scsi_disk.misbehave(HOST_BUSY)
        scsi_disk.device.read(17)
        assert {h.labels["opcode"]: h.total for h in snapshot()} == {"READ_10": 17}


def test_names():
    """Those of the kernel, and numbers of what it has no name for."""
    assert (opcode_name(0x28), opcode_name(0xC1)) == ("READ_10", "[unknown: 0xc1]")
    assert (host_byte_name(0x30000), host_byte_name(0xFE0000)) == ("DID_TIME_OUT", "[unknown: 0xfe]")
    assert (status_byte_name(0x10028), status_byte_name(1)) == ("SAM_STAT_TASK_SET_FULL", "[unknown: 0x01]")


@pytest.mark.parametrize(
    ("tool", "module", "driver"),
    [("scsilatency", "scsi_mod", "SCSI"), ("scsiresult", "scsi_mod", "SCSI"), ("mdflush", "md_mod", "md")],
)
def test_without_the_driver(tool, module, driver):
    """Where the driver is not loaded one line says so, and how to load it."""
    if Path("/sys/module", module).exists() or Path("/sys/bus/scsi").exists():
        return  # in a machine with the disk the other tests run
    done = pyebpf(tool)
    assert done.returncode == 1
    lacking = f"the {driver} driver is not loaded: modprobe {module}, or this kernel has none\n"
    assert done.stderr == f"pyebpf {tool}: {lacking}" or (tool == "mdflush" and "needs kernel functions" in done.stderr)


@contextlib.contextmanager
def mirror(disks):
    """An array of disks that hold the same, without metadata."""
    Path("/sys/module/md_mod/parameters/new_array").write_text("md100")
    settings = Path("/sys/block/md100/md")
    for name, value in (("level", "raid1"), ("raid_disks", str(len(disks))), ("metadata_version", "none")):
        (settings / name).write_text(value)
    for number, disk in enumerate(disks):
        (settings / "new_dev").write_text("{}:{}".format(*disk.numbers))
        (settings / f"dev-{disk.name}" / "slot").write_text(str(number))
    (settings / "component_size").write_text(str(disks[0].size // 1024))
    try:
        (settings / "array_state").write_text("active")
        wait_until(Path("/dev/md100").exists)
        yield Path("/dev/md100")
    finally:
        (settings / "array_state").write_text("clear")


@pytest.mark.machine(modules=("raid1",))
def test_flushes_of_an_array(make_loop_device):
    """7 flushes of a mirror, with this process."""
    needs("module:raid1")
    disks = [make_loop_device(), make_loop_device()]
    with mirror(disks) as device, mdflush.open() as flushes, running("mdflush", "--json") as objects:
        flush(device, FLUSHES)
        found = list(flushes.poll(1.0))
        objects.stop()
    comm = Path("/proc/self/comm").read_text().strip()
    assert [(f.pid, f.comm, f.device) for f in found] == [(os.getpid(), comm, "md100")] * FLUSHES
    assert [o["device"] for o in objects.objects()] == ["md100"] * FLUSHES
