"""TCP handshakes made by hand, through a TUN device of this network namespace: their last packets come when wanted.

Run as `handshakes.py BACKLOG SYNS`. A listener with that backlog gets twice as many connections from an address that
nobody else has: half of them complete, then the others, of which the queue takes one; then so many SYNs, for which it
has no room. Prints how many packets the kernel says it dropped since the queue was full.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE, THERE = socket.inet_aton("10.249.0.1"), socket.inet_aton("10.249.0.2")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
SYN, ACK = 0x02, 0x10
PATIENCE = 60


def checksum(data: bytes) -> int:
    """The Internet's."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def segment(source: int, destination: int, sequence: int, acknowledged: int, flags: int) -> bytes:
    """An IPv4 packet with a TCP header and nothing else."""
    tcp = struct.pack("!HHIIBBHHH", source, destination, sequence, acknowledged, 5 << 4, flags, 4096, 0, 0)
    pseudo = THERE + HERE + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0) + THERE + HERE
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp


def handshakes(tun: int, port: int, sources: range) -> None:
    """Ask for a connection from each port, and once all are answered complete them in that order."""
    answers: dict[int, int] = {}
    for source in sources:
        os.write(tun, segment(source, port, 1000, 0, SYN))
    while len(answers) < len(sources):
        assert select.select([tun], [], [], PATIENCE)[0]
        packet = os.read(tun, 2048)
        if packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP:
            _, source, sequence = struct.unpack_from("!HHI", packet, 20)
            if source in sources and packet[33] == SYN | ACK:
                answers[source] = sequence
    for source in sources:
        os.write(tun, segment(source, port, 1001, answers[source] + 1, ACK))


def overflows() -> int:
    """TcpExtListenOverflows of this network namespace."""
    names, numbers = Path("/proc/self/net/netstat").read_text().splitlines()[:2]
    return int(numbers.split()[names.split().index("ListenOverflows")])


def await_overflows(number: int) -> None:
    """Return once the kernel has counted so many."""
    deadline = time.monotonic() + PATIENCE
    while overflows() < number:
        assert time.monotonic() < deadline, overflows()
        time.sleep(0.01)


def main() -> None:
    """Make the device, the listener and the connections."""
    backlog, syns = int(sys.argv[1]), int(sys.argv[2])
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    for command in ("address add 10.249.0.1/24 dev tun0", "link set tun0 up"):
        subprocess.run(["ip", *command.split()], check=True)
    with socket.create_server(("10.249.0.1", 0), backlog=backlog) as server:
        port = server.getsockname()[1]
        handshakes(tun, port, range(2000, 2000 + backlog))
        handshakes(tun, port, range(3000, 3000 + backlog))
        await_overflows(backlog - 1)
        for source in range(4000, 4000 + syns):
            os.write(tun, segment(source, port, 1000, 0, SYN))
        await_overflows(backlog - 1 + syns)
        sys.stdout.write(f"{overflows()}\n")
    os.close(tun)


if __name__ == "__main__":
    main()
