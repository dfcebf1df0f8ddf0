"""Hardware that a test can ask for: `@pytest.mark.machine(devices=("nvme",), modules=("sch_fq",))`.

Nothing here reaches outside the machine: network cards hang on a hub of their own, radios are made of software.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_DISK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Device:
    """What it takes to have a device: QEMU's arguments, drivers in order of loading, and where to see it in sysfs.

    `{disk}` in an argument is a sparse file of 64 MiB that lives as long as the machine.
    """

    seen: str
    modules: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    def present(self) -> bool:
        """Whether this kernel has one."""
        return any(Path("/sys").glob(self.seen))


DEVICES: dict[str, Device] = {
    "nvme": Device(
        "block/nvme*",
        ("nvme",),
        ("-drive", "if=none,id=nvme,format=raw,file={disk}", "-device", "nvme,serial=pyebpf,drive=nvme"),
    ),
    # A SCSI disk behind virtio; for one that misbehaves on demand there is the module scsi_debug.
    "scsi": Device(
        "bus/scsi/drivers/sd/*:*",
        ("virtio_scsi", "sd_mod"),
        (
            *("-device", "virtio-scsi-pci,id=scsi", "-drive", "if=none,id=disk,format=raw,file={disk}"),
            *("-device", "scsi-hd,drive=disk,bus=scsi.0"),
        ),
    ),
    # Two network cards on one hub: what one sends the other gets.
    "nic": Device(
        "bus/virtio/drivers/virtio_net/virtio*",
        ("virtio_net",),
        (
            *("-netdev", "hubport,id=net0,hubid=0", "-device", "virtio-net-pci,netdev=net0,mac=52:54:00:00:00:01"),
            *("-netdev", "hubport,id=net1,hubid=0", "-device", "virtio-net-pci,netdev=net1,mac=52:54:00:00:00:02"),
        ),
    ),
    # Two radios without radio (mac80211_hwsim's default), which hear each other.
    "wifi": Device("class/mac80211_hwsim/hwsim*", ("mac80211_hwsim",)),
}


def arguments(names: list[str], folder: Path) -> list[str]:
    """QEMU's arguments for some devices; their disks are made in `folder`, as disk-NAME."""
    found = []
    for name in names:
        disk = folder / f"disk-{name}"
        for argument in DEVICES[name].arguments:
            if "{disk}" in argument:
                with disk.open("wb") as file:
                    file.truncate(_DISK_BYTES)
            found.append(argument.format(disk=str(disk).replace(",", ",,")))
    return found


def remove_disks(folder: Path) -> None:
    """Remove what `arguments` made."""
    for disk in folder.glob("disk-*"):
        disk.unlink()
