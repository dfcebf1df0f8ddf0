"""What scripts about files, processes, disks and networks see: a little of everything, by a process of a known name.

`python -m tests.peers.scripts.workload` does it once. Each part leaves out what the machine has not.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.peers.bcc.workloads import DISK, fail_to_connect, read_blocks, send, send_datagrams

NAME = "workload"
_PR_SET_NAME = 15
_FILES, _PROCESSES = 11, 5


def files(folder: Path) -> None:
    """Create, write, sync, read, map, stat, rename, link and remove files; open some that are not there."""
    for number in range(_FILES):
        path = folder / f"file-{number}"
        path.write_bytes(b"x" * 5000 * (number + 1))
        with path.open("r+b") as file:
            os.fsync(file.fileno())
            os.lseek(file.fileno(), 3, os.SEEK_SET)
            file.read(1000)
            with mmap.mmap(file.fileno(), 4096) as memory:
                memory[0] = 1
        path.stat()
        path.rename(folder / f"renamed-{number}")
        (folder / f"link-{number}").symlink_to(path)
        with suppress(FileNotFoundError):
            (folder / f"missing-{number}").read_bytes()
        (folder / f"renamed-{number}").unlink()
    (folder / "folder").mkdir()
    list(folder.iterdir())
    os.sync()


def processes() -> None:
    """Run programs that succeed, fail and are killed; signals; threads; a pipe."""
    for number in range(_PROCESSES):
        subprocess.run(["sh", "-c", f"exit {number}"], check=False)
    with suppress(FileNotFoundError):
        subprocess.run(["/no/such/program"], check=False)
    sleeper = subprocess.Popen(["sleep", "100"])
    sleeper.send_signal(signal.SIGTERM)
    sleeper.wait()
    threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(_PROCESSES)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    subprocess.run(["bash", "-c", "echo told | cat > /dev/null"], check=True)


def memory() -> None:
    """Touch pages, and grow the heap."""
    with mmap.mmap(-1, 1 << 22) as pages:
        for place in range(0, 1 << 22, mmap.PAGESIZE):
            pages[place] = 1
    len([bytearray(1 << 12) for _ in range(1 << 10)])


def names() -> None:
    """Look up names, one of which nobody has."""
    for name in ("localhost", "no.such.host.invalid"):
        with suppress(OSError):
            socket.getaddrinfo(name, 80)


def sockets() -> None:
    """Connect over a UNIX socket, and over TCP from a listener's side, too."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/socket")
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{folder}/socket")
            peer, _ = server.accept()
            with peer:
                client.sendall(b"told")
                peer.recv(10)
    fail_to_connect()
    send()
    send_datagrams()


def main() -> None:
    """All of it, some parts of a second."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, NAME.encode(), 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder))
    processes()
    memory()
    names()
    sockets()
    if Path(DISK).exists():
        read_blocks()


if __name__ == "__main__":
    main()
