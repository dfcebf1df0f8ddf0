"""Socket calls of a process of its own, which notes each with its arguments, its result and its time.

`socket_calls.py NAME` takes NAME as its process's name, waits for a line, then prints the calls as JSON objects.
`calls(NAME)` runs it. How many there are of each kind is a prime, and in the tables below.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.support.told import Worker

#: Connections that are made and accepted, by family; refused ones, connected UDP sockets, accepts with nobody there.
ACCEPTED = {"INET": 23, "INET6": 17, "UNIX": 13}
REFUSED, UDP, EMPTY = 7, 5, 3
BACKLOG = 31

#: Linux's name, where Python has another one.
NAMES = {errno.EOPNOTSUPP: "EOPNOTSUPP"}

Call = dict[str, Any]


class Caller:
    """Sockets' calls, noted."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def note(self, call: str, family: str, address: object, result: int, **more: Any) -> None:
        """Keep a call: `address` as Python has it, `result` an error number or 0."""
        host, port = address[:2] if isinstance(address, tuple) else (address, None)
        error = NAMES.get(result, errno.errorcode.get(result))
        self.calls.append({"call": call, "family": family, "address": host, "port": port, "error": error, **more})

    def connect(self, client: socket.socket, family: str, address: Any, shown: object = None) -> None:
        """Connect, with the time that it took by this process's clock."""
        began = time.monotonic_ns()
        result = client.connect_ex(address)
        elapsed = time.monotonic_ns() - began
        self.note("connect", family, shown or address, result, elapsed=elapsed)

    def accept(self, server: socket.socket, family: str, shown: str | None = None) -> None:
        """Accept a connection, or get an error."""
        port = server.getsockname()[1] if shown is None and family != "UNIX" else None
        try:
            accepted, peer = server.accept()
        except OSError as error:
            self.note("accept", family, None, error.errno or 0, local_port=None)
        else:
            accepted.close()
            self.note("accept", family, shown or peer, 0, local_port=port)

    def listen(self, server: socket.socket, family: str, address: Any, shown: str | None = None) -> None:
        """Bind a socket, and listen on it."""
        server.bind(address)
        self.note("bind", family, shown or server.getsockname(), 0)
        server.listen(BACKLOG)
        self.note("listen", family, shown or server.getsockname(), 0)

    def run(self, path: str) -> None:
        """Every call there is to be; `path` is a file that is not there yet."""
        abstract = f"pyebpf-{Path(path).parent.name}"
        servers: dict[str, tuple[Any, Any, list[str | None]]] = {
            "INET": (socket.AF_INET, ("127.0.0.1", 0), [None]),
            "INET6": (socket.AF_INET6, ("::1", 0), [None]),
            "UNIX": (socket.AF_UNIX, path, [path, f"@{abstract}"]),
        }
        for family, (number, address, names) in servers.items():
            for turn, shown in enumerate(names):
                with socket.socket(number) as server:
                    self.listen(server, family, "\0" + abstract if turn else address, shown)
                    for _ in range(ACCEPTED[family]):
                        with socket.socket(number) as client:
                            self.connect(client, family, server.getsockname(), shown)
                            self.accept(server, family, shown)
                    server.setblocking(False)
                    for _ in range(EMPTY):
                        self.accept(server, family, shown)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.note("bind", "INET", free.getsockname(), 0)
            with socket.socket() as other:
                with contextlib.suppress(OSError):
                    other.bind(free.getsockname())
                self.note("bind", "INET", free.getsockname(), errno.EADDRINUSE)
            for _ in range(REFUSED):
                with socket.socket() as client:
                    self.connect(client, "INET", free.getsockname())
        for _ in range(UDP):
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
                self.connect(client, "INET6", ("::1", 53))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
            with contextlib.suppress(OSError):
                deaf.listen(BACKLOG)
            self.note("listen", "INET", ("0.0.0.0", 0), errno.EOPNOTSUPP)


def calls(name: str) -> AbstractContextManager[Worker]:
    """The process; killed if it still runs at the end."""
    from tests.support.told import worker  # here, since the process runs this file without the tests' package

    return worker(sys.executable, __file__, name)


if __name__ == "__main__":
    Path("/proc/self/comm").write_text(sys.argv[1])
    sys.stdin.readline()
    caller = Caller()
    with tempfile.TemporaryDirectory() as folder:
        caller.run(f"{folder}/socket")
    print(json.dumps(caller.calls))  # noqa: T201 - what the test reads
