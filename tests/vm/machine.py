"""One run of QEMU: boot a kernel, stream the command's output, bring its exit status back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm.initramfs import HIDDEN, Task, build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.vm.kernels import Kernel

# Serial ports: the kernel's messages, the command's output, the command's exit status.
_PORTS = ("console", "output", "status")


class MachineUnusable(Exception):
    """The host cannot run the machine as asked; the message names what is missing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `status` is the command's, or None for a lost machine, and then `reason` says how."""

    status: int | None
    reason: str
    seconds: float
    console: Path


@dataclass(frozen=True, slots=True)
class Machine:
    """A kernel, the memory (MiB) and processors it gets, and further arguments for QEMU (devices, drives)."""

    kernel: Kernel
    memory: int = 4096
    processors: int = 2
    devices: Sequence[str] = ()
    parameters: Sequence[str] = ()

    def run(self, task: Task, results: Path, *, limit: float, output: Callable[[bytes], object]) -> Outcome:
        """Run `task`, handing its output to `output` piece by piece; kill the machine after `limit` seconds.

        `results` is a folder that the guest may write; the console's log is put there too.
        Raises MachineUnusable.
        """
        qemu = shutil.which("qemu-system-x86_64")
        if qemu is None:
            raise MachineUnusable("qemu-system-x86_64 is not installed (Debian: qemu-system-x86)")
        for path in (task.folder, Path(sys.prefix), Path(sys.base_prefix), self.kernel.folder):
            if any(path.resolve().is_relative_to(hidden) for hidden in HIDDEN):
                raise MachineUnusable(f"{path} is hidden in the guest, which has its own {', '.join(HIDDEN)}")
        files = {port: results / f"{port}.log" for port in _PORTS}
        for path in files.values():
            path.write_bytes(b"")
        initramfs = results / "initramfs"
        initramfs.write_bytes(build(self.kernel, task))
        began = time.monotonic()
        process = subprocess.Popen(
            [qemu, *self._arguments(initramfs, results, files)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            in_time = _follow(process, files["output"], began + limit, output)
        finally:
            if process.poll() is None:
                process.kill()
            errors = process.communicate()[1].decode(errors="replace").strip()
            initramfs.unlink()
        seconds = time.monotonic() - began
        word, _, number = files["status"].read_text(errors="replace").strip().partition(" ")
        if word == "status" and number.isdigit():
            return Outcome(int(number), "", seconds, files["console"])
        reason = errors or _last_words(files["console"])
        if not in_time:
            reason = f"not finished after {limit:.0f} s; last on the console: {_last_words(files['console'])}"
        return Outcome(None, reason, seconds, files["console"])

    def _arguments(self, initramfs: Path, results: Path, files: dict[str, Path]) -> list[str]:
        parameters = [
            "console=ttyS0",
            "panic=-1",  # with -no-reboot a panic ends QEMU
            "quiet",
            "mitigations=off",  # costs much in emulation and guards nothing
            "random.trust_cpu=on",
            *self.parameters,
        ]
        arguments = ["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(self.processors)]
        arguments += ["-m", str(self.memory), "-no-reboot", "-nodefaults", "-display", "none"]
        arguments += [
            "-kernel",
            str(self.kernel.image),
            "-initrd",
            str(initramfs),
            "-append",
            " ".join(parameters),
        ]
        shares = (("root", "/", "readonly=on"), ("results", str(results), "readonly=off"))
        for tag, path, mode in shares:
            escaped = path.replace(",", ",,")
            arguments += [
                "-fsdev",
                f"local,id={tag},path={escaped},security_model=none,multidevs=remap,{mode}",
            ]
            arguments += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        for port in _PORTS:
            arguments += ["-serial", f"file:{files[port]}"]
        return [*arguments, *self.devices]


def _follow(process: subprocess.Popen[bytes], path: Path, deadline: float, output: Callable[[bytes], object]) -> bool:
    """Hand on what is appended to `path` until the process ends; False if the deadline came first."""
    with path.open("rb") as stream:
        while True:
            ended = process.poll() is not None
            while piece := os.read(stream.fileno(), 65536):
                output(piece)
            if ended:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)


def _last_words(console: Path) -> str:
    lines = [line.strip() for line in console.read_text(errors="replace").splitlines() if line.strip()]
    # A panic's own line tells more than the register dump that follows it.
    told = [line for line in lines if "Kernel panic" in line or "BUG:" in line or "Oops" in line]
    return (told or lines or ["nothing on the console"])[-1]
