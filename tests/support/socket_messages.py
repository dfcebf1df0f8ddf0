"""Messages of a process of its own through sockets of every kind, of numbers and sizes that are primes.

`socket_messages.py NAME` takes NAME as its process's name, waits for a line, sends and receives, and prints the ports
that it used. `messages(NAME)` runs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.support.told import Worker

#: Rounds and bytes of TCP's questions and answers, of UDP's datagrams and of messages of a UNIX socket.
TCP, QUESTION, ANSWER = 23, 101, 211
UDP, DATAGRAM = 17, 1009
UNIX, MESSAGE = 13, 307
#: Calls that receive nothing, or nothing that stays received.
EMPTY, PEEKS = 5, 3


def tcp(family: socket.AddressFamily, address: str) -> tuple[int, int]:
    """Questions and answers, one after the other, by different system calls; the ports of server and client."""
    with socket.socket(family) as listener, socket.socket(family) as client:
        listener.bind((address, 0))
        listener.listen()
        client.connect(listener.getsockname())
        server, peer = listener.accept()
        with server:
            for _ in range(TCP):
                client.sendall(bytes(QUESTION))
                assert len(server.recv(4096)) == QUESTION
                os.write(server.fileno(), bytes(ANSWER))
                assert len(os.read(client.fileno(), 4096)) == ANSWER
            client.shutdown(socket.SHUT_WR)
            assert server.recv(1) == b""
        return listener.getsockname()[1], peer[1]


def udp() -> int:
    """Datagrams to a socket that is not connected, some looked at first; its port."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.bind(("127.0.0.1", 0))
        client.connect(server.getsockname())
        server.setblocking(False)
        for _ in range(UDP):
            client.send(bytes(DATAGRAM))
        for _ in range(PEEKS):
            server.recv(4096, socket.MSG_PEEK)
        for _ in range(UDP):
            server.recvfrom(4096)
        for _ in range(EMPTY):
            with contextlib.suppress(BlockingIOError):
                server.recv(4096)
        port: int = server.getsockname()[1]
        return port


def unix() -> None:
    """Messages with control data."""
    one, other = socket.socketpair()
    with one, other:
        for _ in range(UNIX):
            one.sendmsg([bytes(MESSAGE)])
            other.recvmsg(4096, 64)


def messages(name: str) -> AbstractContextManager[Worker]:
    """The process; killed if it still runs at the end."""
    from tests.support.told import worker  # here, since the process runs this file without the tests' package

    return worker(sys.executable, __file__, name)


if __name__ == "__main__":
    Path("/proc/self/comm").write_text(sys.argv[1])
    sys.stdin.readline()
    ports = [*tcp(socket.AF_INET, "127.0.0.1"), *tcp(socket.AF_INET6, "::1"), udp()]
    unix()
    print(json.dumps(ports))  # noqa: T201 - what the test reads
