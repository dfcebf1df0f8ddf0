"""Workloads that make so many events of a kind, and no others."""

from __future__ import annotations

import mmap
import os
import socket
from contextlib import suppress

from tests.support.scsi_debug import DRIVER, MEDIUM_ERROR, scsi_debug_disk

DISK = "/dev/nvme0n1"
SIZES = (1, 20, 300, 4000, 5000)


def read_blocks() -> None:
    """Read blocks of several sizes, past the page cache, and write some."""
    disk = os.open(DISK, os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, 1 << 16) as memory:
        for number in range(23):
            size = 4096 << number % 3
            os.preadv(disk, [memoryview(memory)[:size]], number << 16)
        for number in range(7):
            os.pwritev(disk, [memoryview(memory)[:8192]], number << 16)
    os.close(disk)


def read_what_is_broken() -> None:
    """Read a sector of scsi_debug's disk that has a medium error, and one that has none."""
    with scsi_debug_disk() as its, mmap.mmap(-1, 4096) as memory:
        (DRIVER / "opts").write_text(MEDIUM_ERROR)
        disk = os.open(f"/dev/{its.name}", os.O_RDONLY | os.O_DIRECT)
        for sector in (0x1230, 0x1000, 0x1230):
            with suppress(OSError):
                os.preadv(disk, [memory], sector << 9)
        os.close(disk)


def fail_to_connect() -> None:
    """Connect to ports where nobody listens, and to a socket that is not there."""
    for port in range(1, 12):
        with socket.socket() as client, suppress(ConnectionRefusedError):
            client.connect(("127.0.0.1", port))
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as client, suppress(FileNotFoundError):
            client.connect("/nowhere")


def send() -> None:
    """Send messages through a connection over loopback; the other side takes each whole before the next."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        with client, peer:
            for size in SIZES * 4:
                client.sendall(b"x" * size)
                assert len(peer.recv(size, socket.MSG_WAITALL)) == size


def send_datagrams() -> None:
    """Send datagrams over loopback, of which each is taken before the next."""
    with socket.socket(type=socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
        server.bind(("127.0.0.1", 0))
        for size in SIZES * 4:
            client.sendto(b"x" * size, server.getsockname())
            assert len(server.recv(1 << 16)) == size


WORKLOADS = {
    "disk": read_blocks,
    "disk errors": read_what_is_broken,
    "connects": fail_to_connect,
    "tcp": send,
    "udp": send_datagrams,
}
