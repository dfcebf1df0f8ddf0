"""Segments that TCP sends again, in a network namespace of its own, as `tcp_losses.py WAY FAMILY`.

The other end's address goes away, and what is sent to it gets lost. Prints JSON: both ends, and the kernel's counters
of what was sent again. Of the ways, `data` is a segment until it was sent five times more, `new` is more than the
congestion window lets out, so that the tail loss probe is a new segment, and `synack` answers a SYN of nobody's. With
`fast` each seventh segment gets lost, and most are sent again as soon as the other end asks for them.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.tcp_opens import BLACK_HOLE, counters, set_up

ADDRESSES = {"4": ("10.9.8.1", "10.9.8.2/32", socket.AF_INET), "6": ("fd09::1", "fd09::2/128", socket.AF_INET6)}
AGAIN = 5


def total_retrans(connection: socket.socket) -> int:
    """`tcpi_total_retrans` of struct tcp_info."""
    found: int = struct.unpack_from("=I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)[0]
    return found


def abort(*connections: socket.socket) -> None:
    """Close by RST, so that nothing more is sent."""
    for each in connections:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        each.close()


def lose(way: str, version: str) -> list[Any]:
    """Send to an address that goes away."""
    source, address, family = ADDRESSES[version]
    with socket.socket(family) as listener, socket.socket(family) as client:
        if way == "new":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        listener.bind((address.partition("/")[0], 0))
        listener.listen()
        client.bind((source, 0))
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        ends = [*client.getsockname()[:2], *client.getpeername()[:2]]
        subprocess.run(["ip", "address", "del", address, "dev", "lo"], check=True)
        client.sendall(bytes(20_011 if way == "new" else 7))
        while total_retrans(client) < (1 if way == "new" else AGAIN):
            time.sleep(0.01)
        abort(client, accepted)
    return ends


def lose_some(version: str) -> list[Any]:
    """Send so that acknowledgements ask for what got lost, most of the time while a tail loss probe is due."""
    from pyebpf import BPF, XDP_DROP, XDP_PASS, XdpContext, u64

    bpf = BPF()
    seen = bpf.array(value=u64, size=1)

    @bpf.xdp("lo")
    def drop(ctx: XdpContext) -> int:
        if len(ctx.packet) > 1000:
            seen[0] += 1
            if seen[0] % 7 == 0:
                return XDP_DROP
        return XDP_PASS

    source, address, family = ADDRESSES[version]
    with (
        socket.create_server((address.partition("/")[0], 0), family=family) as listener,
        socket.socket(family) as client,
    ):
        client.bind((source, 0))
        client.connect(listener.getsockname())
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted, _ = listener.accept()
        ends = [*client.getsockname()[:2], *client.getpeername()[:2]]
        with accepted, bpf:
            for _ in range(150):
                for _ in range(4):
                    client.sendall(bytes(1400))
                time.sleep(0.002)
            client.shutdown(socket.SHUT_WR)
            while accepted.recv(1 << 16):
                pass
    return ends


def syn(source: str, to: tuple[str, int]) -> bytes:
    """A SYN, whose checksum covers what IP's header has."""
    ends = socket.inet_aton(source) + socket.inet_aton(to[0])
    header = struct.pack("!HHIIBBHHH", 4000, to[1], 1, 0, 5 << 4, 2, 65_535, 0, 0)
    total = sum(struct.unpack("!10H", header)) + sum(struct.unpack("!4H", ends)) + socket.IPPROTO_TCP + len(header)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:16] + struct.pack("!H", ~total & 0xFFFF) + header[18:]


def lose_an_answer() -> list[Any]:
    """Let a listener answer nobody, until it did so twice."""
    with (
        socket.create_server(("10.9.8.2", 0)) as listener,
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw,
    ):
        to = listener.getsockname()
        segment = syn(BLACK_HOLE, to)
        addresses = socket.inet_aton(BLACK_HOLE) + socket.inet_aton(to[0])
        raw.sendto(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0, 64, 6, 0) + addresses + segment, to)
        while counters("snmp", "Tcp")["RetransSegs"] == 0:
            time.sleep(0.01)
        return [*to, BLACK_HOLE, 4000]


def main(way: str, version: str) -> None:
    """Lose something, and tell."""
    set_up()
    ends = lose_an_answer() if way == "synack" else lose_some(version) if way == "fast" else lose(way, version)
    told = {
        "ends": ends,
        "again": counters("snmp", "Tcp")["RetransSegs"],
        "probes": counters("netstat", "TcpExt")["TCPLossProbes"],
    }
    print(json.dumps(told))  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(*sys.argv[1:])
