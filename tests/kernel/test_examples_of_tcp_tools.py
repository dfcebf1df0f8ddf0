"""The library examples on the pages of the TCP and UDP tools run, and print what the workload makes."""

from __future__ import annotations

import re
import selectors
import socket
import subprocess
import sys
import time

import pytest

from tests.support import tcp_losses
from tests.support.needs import needs_functions
from tests.support.python import ROOT, python
from tests.support.waiting import PATIENCE


def example(tool):
    """The code of a tool's page."""
    page = (ROOT / "docs" / "tools" / f"{tool}.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return block


def connection():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as server,
    ):
        client.sendall(bytes(1009))
        server.sendall(server.recv(4099))


def first_line(tool, work):
    """Run a page's example, and `work` again and again, until the example prints a line."""
    with python("-u", "-c", example(tool), stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                deadline = time.monotonic() + PATIENCE
                while not selector.select(0.1):
                    assert time.monotonic() < deadline
                    work()
            line = process.stdout.readline()
        finally:
            process.kill()
    assert line
    return line


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("tcpbuf", r"\{'port': \d+, 'buffer': '(send|receive)'\} \d+"),
        ("tcprtt", r"\{'remote host': '127\.0\.0\.1'\} \d+"),
        ("tcptop", r"\S+ 127\.0\.0\.1 \d+ \d+"),
        ("tcpwin", r"(rcv|new) 127\.0\.0\.1 \d+ \d+"),
        ("tcpaccept", r"\S+ 127\.0\.0\.1 0 of \d+ wait"),
        ("tcpconnect", r"\S+ 127\.0\.0\.1 \d+"),
        ("tcpstates", r"\d+ (127\.0\.0\.1|0\.0\.0\.0) [A-Z_]+ [A-Z_]+ (None|\d+)"),
    ],
)
def test_a_connection(tool, expected):
    """What the example prints of a connection has the form that its page lets one expect."""
    assert re.fullmatch(expected, first_line(tool, connection).strip())


def test_a_lost_segment(make_namespace):
    """The example of tcpretrans prints the kind, the address and the state."""

    def lose():
        make_namespace().run(sys.executable, tcp_losses.__file__, "data", "4")

    assert re.fullmatch(r"[LRS] 10\.9\.8\.2 ESTABLISHED", first_line("tcpretrans", lose).strip())


def datagrams():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.bind(("127.0.0.1", 0))
        client.connect(server.getsockname())
        client.send(bytes(1009))


def test_a_udp_connection():
    """The example of udpconnect prints the process's name and the remote end."""
    assert re.fullmatch(r"\S+ 127\.0\.0\.1 \d+", first_line("udpconnect", datagrams).strip())


@pytest.mark.parametrize(
    ("tool", "work", "expected"),
    [
        ("udplife", datagrams, r"\S+ 127\.0\.0\.1 1009 0 \d+"),
        ("tcpnagle", connection, r"[a-zA-Z|]+ \d+ \d+"),
        ("tcpiplat", connection, r"usecs \d+"),
    ],
)
def test_functions(tool, work, expected):
    """So do the examples of tools that trace functions of the kernel, where that can be done."""
    needs_functions()
    assert re.fullmatch(expected, first_line(tool, work).strip())
