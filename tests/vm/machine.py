"""One run of QEMU: boot a kernel, stream the command's output, bring its exit status back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm import devices
from tests.vm.initramfs import HIDDEN, SHARES, Task, build
from tests.vm.platforms import PLATFORMS, Platform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.vm.kernels import Kernel

# Serial ports: the kernel's messages, the command's output, the command's exit status.
_PORTS = ("console", "output", "status")

_VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")  # where QEMU 7's package puts it
_PANIC = b"Kernel panic - not syncing"
STOP = threading.Event()  # once set, every machine is killed, and none starts
_SOCKET_PATIENCE = 10.0  # seconds until a daemon has its socket


class MachineUnusable(Exception):
    """The host cannot run the machine as asked; the message names what is missing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `status` is the command's, or None for a lost machine, and then `reason` says how."""

    status: int | None
    reason: str
    seconds: float
    console: Path

    @property
    def panicked(self) -> bool:
        """Whether the machine was lost to a panic of its kernel."""
        return self.status is None and _PANIC in self.console.read_bytes()


@dataclass(frozen=True, slots=True)
class Machine:
    """A kernel, the memory (MiB) and processors it gets, devices by name, further arguments for QEMU and the kernel.

    `thread` is how TCG emulates processors: "multi", a thread for each, or "single", one after the other, which is
    slower, and free of races of the emulation's own. `root` is the guest's, for a platform that has its own.
    """

    kernel: Kernel
    memory: int = 4096
    processors: int = 2
    devices: Sequence[str] = ()
    arguments: Sequence[str] = ()
    parameters: Sequence[str] = ()
    thread: str = "multi"
    platform: Platform = PLATFORMS["amd64"]
    root: Path | None = None

    def run(self, task: Task, results: Path, *, limit: float, output: Callable[[bytes], object]) -> Outcome:
        """Run `task`, handing its output to `output` piece by piece; kill the machine after `limit` seconds.

        `results` is a folder that the guest may write; the console's log is put there too. An interactive task has
        this process's terminal, and no limit. Raises MachineUnusable.
        """
        if STOP.is_set():
            raise MachineUnusable("stopped by a signal")
        platform = self.platform
        qemu = shutil.which(platform.qemu)
        if qemu is None:
            raise MachineUnusable(f"{platform.qemu} is not installed (Debian: {platform.package})")
        for path in (task.folder, Path(sys.prefix), Path(sys.base_prefix), self.kernel.folder):
            if any(path.resolve().is_relative_to(hidden) for hidden in HIDDEN):
                raise MachineUnusable(f"{path} is hidden in the guest, which has its own {', '.join(HIDDEN)}")
        files = {port: results / f"{port}.log" for port in _PORTS}
        for path in files.values():
            path.write_bytes(b"")
        kind = "9p" if self.kernel.has_module("9p") else "virtiofs"
        initramfs = results / "initramfs"
        with ExitStack() as stack:
            stack.callback(devices.remove_disks, results)
            stack.callback(initramfs.unlink, missing_ok=True)
            initramfs.write_bytes(build(self.kernel, task, SHARES[kind], platform, self.root))
            arguments = [qemu, *self._arguments(initramfs)]
            arguments += (
                _shares_over_9p(results, self.root) if kind == "9p" else self._shares_over_virtiofs(results, stack)
            )
            ports = {port: f"file:{path}" for port, path in files.items()}
            if task.interactive:
                ports["output"] = "mon:stdio"
            for port in _PORTS:
                arguments += platform.port(port, ports[port])
            arguments += [*devices.arguments(list(self.devices), results), *self.arguments]
            began = time.monotonic()
            process = subprocess.Popen(
                arguments,
                stdin=None if task.interactive else subprocess.DEVNULL,
                stdout=None if task.interactive else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            try:
                in_time = _follow(process, files, began + limit, output)
            finally:
                if process.poll() is None:
                    process.kill()
                errors = _last_errors(process)
        seconds = time.monotonic() - began
        word, _, number = files["status"].read_text(errors="replace").strip().partition(" ")
        if word == "status" and number.isdigit():
            return Outcome(int(number), "", seconds, files["console"])
        reason = errors or _last_words(files["console"])
        if not in_time:
            reason = f"not finished after {limit:.0f} s; last on the console: {_last_words(files['console'])}"
        return Outcome(None, reason, seconds, files["console"])

    def _arguments(self, initramfs: Path) -> list[str]:
        parameters = [
            f"console={self.platform.console}",
            "panic=-1",  # with -no-reboot a panic ends QEMU
            "quiet",
            *self.platform.parameters,
            *self.parameters,
        ]
        arguments = [*self.platform.machine, "-accel", f"tcg,thread={self.thread}", "-smp", str(self.processors)]
        arguments += ["-m", str(self.memory), "-no-reboot", "-nodefaults", "-display", "none"]
        arguments += ["-kernel", str(self.kernel.image), "-initrd", str(initramfs)]
        return [*arguments, "-append", " ".join(parameters)]

    def _shares_over_virtiofs(self, results: Path, stack: ExitStack) -> list[str]:
        """Start a daemon for each share; they end with the machine, and at the latest with `stack`."""
        if not _VIRTIOFSD.exists():
            raise MachineUnusable(f"{self.kernel.release} has no 9p, and there is no {_VIRTIOFSD} (Debian 12 has it)")
        # The daemons see the guest's memory.
        arguments = ["-object", f"memory-backend-memfd,id=memory,size={self.memory}M,share=on"]
        arguments += ["-machine", "pc,memory-backend=memory"]
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyebpf-vm-")))
        for tag, path, cache in (("root", Path("/"), "always"), ("results", results, "none")):
            socket = sockets / tag
            daemon = subprocess.Popen(
                [
                    *(_VIRTIOFSD, f"--socket-path={socket}", "-o", f"source={path}", "-o", f"cache={cache}"),
                    *("-o", "sandbox=chroot"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(results / f"virtiofsd-{tag}.log").open("wb"),
            )
            stack.callback(_end, daemon)
            deadline = time.monotonic() + _SOCKET_PATIENCE
            while not socket.exists():
                if daemon.poll() is not None or time.monotonic() > deadline:
                    log = (results / f"virtiofsd-{tag}.log").read_text(errors="replace").strip()
                    raise MachineUnusable(f"virtiofsd has not started: {log.rpartition(chr(10))[2]}")
                time.sleep(0.05)
            arguments += ["-chardev", f"socket,id={tag},path={socket}"]
            arguments += ["-device", f"vhost-user-fs-pci,chardev={tag},tag={tag}"]
        return arguments


def _shares_over_9p(results: Path, root: Path | None) -> list[str]:
    arguments = []
    shares = [("root", str(root or "/"), "readonly=on"), ("results", str(results), "readonly=off")]
    if root is not None:
        shares.append(("host", "/", "readonly=on"))
    for tag, path, mode in shares:
        escaped = path.replace(",", ",,")
        arguments += ["-fsdev", f"local,id={tag},path={escaped},security_model=none,multidevs=remap,{mode}"]
        arguments += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return arguments


def _last_errors(process: subprocess.Popen[bytes]) -> str:
    """What QEMU, which has ended or been killed, wrote to its standard error."""
    try:
        return process.communicate(timeout=30)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        return f"QEMU, process {process.pid}, does not end"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(30)


def _follow(
    process: subprocess.Popen[bytes], files: dict[str, Path], deadline: float, output: Callable[[bytes], object]
) -> bool:
    """Hand on what is put out until the process ends, or the kernel panics; False if the deadline or STOP came first.

    A kernel that panics is to end QEMU, but may hang on its way there.
    """
    with files["output"].open("rb") as stream, files["console"].open("rb") as console:
        tail = b""
        while True:
            tail = tail[-len(_PANIC) :] + console.read()
            ended = process.poll() is not None or _PANIC in tail
            while piece := os.read(stream.fileno(), 65536):
                output(piece)
            if ended:
                return True
            if time.monotonic() > deadline or STOP.is_set():
                return False
            time.sleep(0.1)


def _last_words(console: Path) -> str:
    lines = [line.strip() for line in console.read_text(errors="replace").splitlines() if line.strip()]
    # A panic's own line tells more than the register dump that follows it.
    told = [line for line in lines if "Kernel panic" in line or "BUG:" in line or "Oops" in line]
    return (told or lines or ["nothing on the console"])[-1]
