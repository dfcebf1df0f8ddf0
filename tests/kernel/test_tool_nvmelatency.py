"""nvmelatency: reads, writes, flushes and admin commands of QEMU's disk, each kind counted exactly."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from pathlib import Path

import pytest

from pyebpf.programs import nvmelatency
from tests.support.command import pyebpf, running
from tests.support.loop import LoopDevice

READS, WRITES, FLUSHES, IDENTIFIES = 101, 53, 7, 13
_NVME_IOCTL_ADMIN_CMD = 0xC0484E41  # _IOWR('N', 0x41, struct nvme_passthru_cmd)
_IDENTIFY, _CONTROLLER = 6, 1


def counts(objects):
    """Commands by disk and name."""
    return {(o["disk"], o["command"]): sum(bucket["count"] for bucket in o["buckets"]) for o in objects}


def disk():
    (path,) = Path("/dev").glob("nvme*n1")
    return LoopDevice(path, 64 << 20)


def flush(path, times):
    """Write through the page cache and have the device empty its own."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        for _ in range(times):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def identify(controller, times):
    """Ask a controller who it is, by its admin queue."""
    with mmap.mmap(-1, 4096) as memory:
        view = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(view)
        # struct nvme_passthru_cmd: opcode, flags u8; rsvd1 u16; nsid, cdw2, cdw3 u32; metadata, addr u64;
        # metadata_len, data_len, cdw10 ... cdw15, timeout_ms, result u32.
        command = struct.pack("=BBHIIIQQ10I", _IDENTIFY, 0, 0, 0, 0, 0, 0, address, 0, 4096, _CONTROLLER, *[0] * 7)
        descriptor = os.open(controller, os.O_RDONLY)
        try:
            for _ in range(times):
                assert fcntl.ioctl(descriptor, _NVME_IOCTL_ADMIN_CMD, bytearray(command)) == 0
        finally:
            os.close(descriptor)
            del view


@pytest.mark.machine(devices=("nvme",))
def test_commands_by_disk_and_kind():
    """101 reads, 53 writes, 7 flushes of the disk and 13 admin commands of its controller, as text, JSON and CSV."""
    device = disk()
    name, controller = device.name, device.name.removesuffix("n1")
    with (
        running("nvmelatency") as text,
        running("nvmelatency", "--json") as objects,
        running("nvmelatency", "-m", "--csv") as rows,
    ):
        device.read(READS)
        device.write(WRITES)
        flush(device.path, FLUSHES)
        identify(f"/dev/{controller}", IDENTIFIES)
        for tool in (text, objects, rows):
            tool.stop()
    expected = {
        (name, "nvme_cmd_read"): READS,
        (name, "nvme_cmd_write"): WRITES,
        (name, "nvme_cmd_flush"): FLUSHES,
        (controller, "nvme_admin_identify"): IDENTIFIES,
    }
    assert counts(objects.objects()) == expected
    assert {record["unit"] for record in objects.objects()} == {"usecs"}
    found = {}
    for row in rows.rows():
        key = (row["disk"], row["command"])
        found[key] = found.get(key, 0) + int(row["count"])
        assert row["unit"] == "msecs"
    assert found == expected
    headings = [line for line in text.out.splitlines() if line.startswith("disk = ")]
    assert headings == [f"disk = '{disk}', command = '{command}'" for disk, command in sorted(expected, key=order)]
    assert all(len(line) <= 80 for line in text.out.splitlines())


def order(key):
    """As they are printed: disks first, by the number of the command."""
    numbers = {"nvme_cmd_flush": 0, "nvme_cmd_write": 1, "nvme_cmd_read": 2, "nvme_admin_identify": 100}
    return numbers[key[1]]


@pytest.mark.machine(devices=("nvme",))
def test_intervals():
    """Each interval has its own commands."""
    device = disk()
    with nvmelatency.open() as snapshot:
        device.read(3)
        first = {(h.labels["disk"], h.labels["command"]): h.total for h in snapshot()}
        assert list(snapshot()) == []
        device.write(5)
        second = {(h.labels["disk"], h.labels["command"]): h.total for h in snapshot()}
    assert first == {(device.name, "nvme_cmd_read"): 3}
    assert second == {(device.name, "nvme_cmd_write"): 5}


def test_without_the_driver():
    """Where the driver is not loaded one line says so, and how to load it."""
    if Path("/sys/module/nvme_core").exists():  # in a machine with the disk the other tests run
        return
    done = pyebpf("nvmelatency")
    assert done.returncode == 1
    assert done.stderr == "pyebpf nvmelatency: the NVMe driver is not loaded: modprobe nvme, or this kernel has none\n"
