"""TCP connections of known numbers in a network namespace of its own, as `tcp_opens.py NAME`.

Prints JSON: the process, both ends of each open and of each accept in order, and how many of both the kernel counted.
The namespace has nothing but loopback; what is sent to BLACK_HOLE is lost.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Opens that are answered, of IPv4 and by a call that does not wait of IPv6; of IPv4 by a socket of IPv6; refused.
FOUR, SIX, MAPPED, REFUSED = 23, 17, 13, 7
BLACK_HOLE, SOURCE = "10.9.9.9", "10.9.8.1"
BACKLOG = 19


def counters(file: str, group: str) -> dict[str, int]:
    """Counters of this network namespace: of /proc/net/snmp's Tcp, say."""
    lines = Path("/proc/self/net", file).read_text(encoding="ascii").splitlines()
    names, numbers = (line.split()[1:] for line in lines if line.startswith(f"{group}:"))
    return dict(zip(names, map(int, numbers), strict=True))


def set_up() -> None:
    """Give loopback addresses between which packets go, and routes to where they get lost."""
    commands = (
        f"address add {SOURCE}/32 dev lo",
        "address add 10.9.8.2/32 dev lo",
        "address add fd09::1/128 dev lo nodad",
        "address add fd09::2/128 dev lo nodad",
        f"route add 10.9.8.0/24 dev lo src {SOURCE}",
        f"route add 10.9.9.0/24 dev lo src {SOURCE}",
        "-6 route add fd09::/64 dev lo src fd09::1",
    )
    subprocess.run(["sh", "-ec", "".join(f"ip {each}\n" for each in commands)], check=True)


def end(address: tuple[Any, ...]) -> list[Any]:
    """An address as the tools show it."""
    return [address[0].removeprefix("::ffff:"), address[1]]


def main(name: str) -> None:
    """Open, accept, and say so."""
    Path("/proc/self/comm").write_text(name, encoding="ascii")
    set_up()
    before = counters("snmp", "Tcp")
    connects: list[list[Any]] = []
    accepts: list[list[Any]] = []

    with contextlib.ExitStack() as stack:

        def opened(family: int, to: tuple[Any, ...], *, waits: bool = True) -> socket.socket:
            made = stack.enter_context(socket.socket(family))
            made.setblocking(waits)
            status = made.connect_ex(to)
            assert status in (0, errno.EINPROGRESS, errno.ECONNREFUSED), errno.errorcode[status]
            local = made.getsockname() if status != errno.ECONNREFUSED else (to[0], 0)
            connects.append([*end(local), *end(to)])
            return made

        def take(listener: socket.socket) -> None:
            accepted, _ = listener.accept()
            stack.enter_context(accepted)
            accepts.append([*end(accepted.getsockname()), *end(accepted.getpeername())])

        with (
            socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as four,
            socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG) as six,
        ):
            for _ in range(FOUR):
                opened(socket.AF_INET, four.getsockname())
                take(four)
            port = six.getsockname()[1]
            for _ in range(SIX):
                opened(socket.AF_INET6, ("::1", port), waits=False)
            for _ in range(SIX):
                take(six)
            for _ in range(MAPPED):
                opened(socket.AF_INET6, ("::ffff:127.0.0.1", port))
                take(six)
            # The second finds no port to connect from: this one is taken, for the same address.
            last = opened(socket.AF_INET, four.getsockname())
            take(four)
            with socket.socket() as other:
                for each in (last, other):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind(last.getsockname())
                assert other.connect_ex(four.getsockname()) == errno.EADDRNOTAVAIL
        for _ in range(REFUSED):
            opened(socket.AF_INET, ("127.0.0.1", 4099))
        # Nobody answers: the SYN is sent again after a second.
        with socket.socket() as lost:
            lost.settimeout(None)
            lost.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
            assert lost.connect_ex((BLACK_HOLE, 4101)) == errno.ETIMEDOUT
            connects.append([SOURCE, 0, BLACK_HOLE, 4101])
    after = counters("snmp", "Tcp")
    told = {
        "pid": os.getpid(),
        "connects": connects,
        "accepts": accepts,
        "active": after["ActiveOpens"] - before["ActiveOpens"],
        "passive": after["PassiveOpens"] - before["PassiveOpens"],
    }
    print(json.dumps(told))  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(sys.argv[1])
