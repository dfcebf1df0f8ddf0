"""A TCP server or client whose transfers follow from the number of the connection, for counting them exactly.

Run as `tcp_peer.py NAME server ADDRESS COUNT` (prints its port, then ends after COUNT connections) or as
`tcp_peer.py NAME client ADDRESS PORT COUNT`. Each takes NAME as its process's name.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path


def question(number: int) -> int:
    """Bytes that the client sends on a connection."""
    return number * 1021 + 7


def answer(number: int) -> int:
    """Bytes that the server sends on a connection."""
    return number * 4099 + 3


def receive(connection: socket.socket, size: int) -> None:
    """Receive exactly so many bytes."""
    while size:
        size -= len(connection.recv(min(size, 1 << 16)))


def family(address: str) -> socket.AddressFamily:
    """AF_INET6 for an address with colons."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(address: str, count: int) -> None:
    """Every second connection is closed by the server first, the others by the client."""
    with socket.create_server((address, 0), family=family(address), backlog=64) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201 - what the test waits for
        for number in range(count):
            connection, _ = listener.accept()
            with connection:
                receive(connection, question(number))
                connection.sendall(bytes(answer(number)))
                if number % 2 == 0:
                    assert connection.recv(1) == b""


def connect(address: str, port: int, count: int) -> None:
    """One connection after the other."""
    for number in range(count):
        with socket.socket(family(address)) as connection:
            connection.connect((address, port))
            connection.sendall(bytes(question(number)))
            receive(connection, answer(number))
            if number % 2:
                assert connection.recv(1) == b""


if __name__ == "__main__":
    name, role, address, *numbers = sys.argv[1:]
    Path("/proc/self/comm").write_text(name)
    run = serve if role == "server" else connect
    run(address, *map(int, numbers))
