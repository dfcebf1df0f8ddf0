"""A disk of the driver scsi_debug, which misbehaves on demand."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.loop import LoopDevice
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER = Path("/sys/bus/pseudo/drivers/scsi_debug")
#: drivers/scsi/scsi_debug.c: no answer; a sector that cannot be read; half of what was asked for; "busy, come again".
TIMEOUT, MEDIUM_ERROR, SHORT_TRANSFER, HOST_BUSY = "0x4", "0x2", "0x100", "0x8000"
#: The first sector that cannot be read, and how many follow it.
BAD_SECTORS = (0x1234, 10)


@dataclass(frozen=True)
class ScsiDisk:
    """The disk, by its name."""

    name: str

    @property
    def device(self) -> LoopDevice:
        """The disk to read from and to write to, of 8 MiB."""
        return LoopDevice(Path("/dev") / self.name, 8 << 20)

    def misbehave(self, how: str, every: int = 2) -> None:
        """Do so from now on, at each `every`-th command."""
        (DRIVER / "opts").write_text(how)
        (DRIVER / "every_nth").write_text(str(every))

    def set_timeout(self, seconds: int) -> None:
        """Let the kernel wait so long for an answer."""
        (Path("/sys/block") / self.name / "device/timeout").write_text(str(seconds))


@contextlib.contextmanager
def scsi_debug_disk() -> Iterator[ScsiDisk]:
    """The disk, which behaves again afterwards."""
    before = {name: (DRIVER / name).read_text() for name in ("opts", "every_nth")}
    disks = wait_until(lambda: list(Path("/sys/devices").glob("pseudo*/adapter*/host*/target*/*:*/block/*")))
    disk = ScsiDisk(disks[0].name)
    timeout = (Path("/sys/block") / disk.name / "device/timeout").read_text()
    try:
        yield disk
    finally:
        for name, value in before.items():
            (DRIVER / name).write_text(value)
        disk.set_timeout(int(timeout))
