"""Architectures that machines are emulated for: QEMU's words for each, and what the guest sees of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Platform:
    """One architecture, by Debian's name for it.

    name          as in the names of packages
    qemu          the emulator, with the package that has it
    machine       its arguments: machine and processor
    parameters    the kernel's, for this architecture alone
    console       the kernel's device for messages
    output, status   serial ports in the guest: what the command prints, and its exit status
    port          QEMU's arguments for one more serial port, of a backend such as "file:PATH"
    own_root      whether the guest has a root file system of its own (`tests.vm.root`), and not this machine's
    """

    name: str
    qemu: str
    package: str
    machine: tuple[str, ...]
    parameters: tuple[str, ...]
    console: str
    output: str
    status: str
    port: Callable[[str, str], list[str]]
    own_root: bool = False


def _of_the_board(_: str, backend: str) -> list[str]:
    return ["-serial", backend]


def _behind_pci(name: str, backend: str) -> list[str]:
    """`virt` has one port, which is the console's; more hang on the bus."""
    if name == "console":
        return ["-serial", backend]
    if backend.startswith("file:"):
        backend = f"file,path={backend.removeprefix('file:')}"
    elif backend == "mon:stdio":
        backend = "stdio,mux=on,signal=off"
    return ["-chardev", f"{backend},id={name}", "-device", f"pci-serial,chardev={name}"]


PLATFORMS = {
    "amd64": Platform(
        "amd64",
        "qemu-system-x86_64",
        "qemu-system-x86",
        ("-cpu", "max"),
        ("mitigations=off", "random.trust_cpu=on"),  # the former cost much in emulation and guard nothing
        "ttyS0",
        "ttyS1",
        "ttyS2",
        _of_the_board,
    ),
    "arm64": Platform(
        "arm64",
        "qemu-system-aarch64",
        "qemu-system-arm",
        # Pointers are signed by arithmetic of the emulator's own: the architecture's takes half of all time.
        ("-machine", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"),
        ("mitigations=off",),
        "ttyAMA0",
        "ttyS0",
        "ttyS1",
        _behind_pci,
        own_root=True,
    ),
}
