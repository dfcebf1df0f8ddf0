"""Packets between namespaces of a test's own, counted."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

from pyebpf.kernel.syscall import syscall
from pyebpf.packet import IPPROTO_UDP, UDP, Ethernet, IPv4, checksum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.namespaces import Namespace

CLONE_NEWNET = 0x40000000
SO_NO_CHECK = 11


@contextlib.contextmanager
def inside(namespace: Namespace) -> Iterator[None]:
    """This thread in another network namespace."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(namespace.path, os.O_RDONLY)
    try:
        syscall("setns", other, CLONE_NEWNET)
        yield
    finally:
        syscall("setns", own, CLONE_NEWNET)
        os.close(own)
        os.close(other)


def receiver(namespace: Namespace, port: int) -> socket.socket:
    """A UDP socket in a namespace, with room for all that tests send."""
    with inside(namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    made.bind(("", port))
    made.settimeout(10)
    return made


def send(namespace: Namespace, address: tuple[str, int], count: int, payload: bytes = b"x") -> None:
    """`count` UDP packets to an address, from a namespace."""
    with inside(namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with made:
        # A checksum left to a card that there is not would be missing after XDP has redirected a frame.
        made.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        for _ in range(count):
            made.sendto(payload, address)


def received(made: socket.socket, wait: float = 0.0) -> int:
    """How many packets a socket holds now, taken out of it."""
    count, end = 0, time.monotonic() + wait
    made.setblocking(False)
    while True:
        try:
            made.recv(1 << 16)
        except BlockingIOError:
            if time.monotonic() >= end:
                return count
            time.sleep(0.01)
        else:
            count += 1


def udp_frame(port: int, payload: bytes = b"x" * 22, options: int = 0, ttl: int = 64) -> bytes:
    """An Ethernet frame with a UDP datagram; `options` is how many 32-bit words of IPv4 options it has."""
    length = 20 + 4 * options
    ip = IPv4(
        version_and_length=0x40 | length // 4,
        length=length + 8 + len(payload),
        ttl=ttl,
        protocol=IPPROTO_UDP,
        source=0x0AFB0001,
        destination=0x0AFB0002,
    )
    raw = ip.to_bytes() + b"\x01" * 4 * options
    ip.checksum = checksum(raw)
    head = ip.to_bytes() + b"\x01" * 4 * options
    return Ethernet().to_bytes() + head + UDP(1024, port, 8 + len(payload), 0).to_bytes() + payload


def settled(made: socket.socket, expected: int) -> int:
    """How many packets arrived, once `expected` did and nothing more came for a moment."""
    count, deadline = 0, time.monotonic() + 10
    while count < expected and time.monotonic() < deadline:
        count += received(made, 0.02)
    return count + received(made, 0.05)


def connect(here: Namespace, there: Namespace) -> None:
    """`Namespace.connect`, after which each knows the other's address: no packet has to wait for ARP."""
    here.connect(there)
    with receiver(there, 7901) as first:
        send(here, ("10.251.0.2", 7901), 1)
        assert settled(first, 1) == 1
    with receiver(here, 7901) as second:
        send(there, ("10.251.0.1", 7901), 1)
        assert settled(second, 1) == 1


def udp(port: int = 0, *, shared: bool = False) -> socket.socket:
    """A UDP socket on loopback that waits a fifth of a second; `shared` by SO_REUSEPORT."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    made.settimeout(0.2)
    return made


def datagrams(one: socket.socket) -> list[bytes]:
    """What comes until nothing does."""
    found = []
    with contextlib.suppress(TimeoutError):
        while True:
            found.append(one.recv(99))
    return found
