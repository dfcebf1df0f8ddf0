"""so1stbyte and soconnlat: connections of this process, whose times it knows."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import threading
import time

import pytest

from pyebpf.programs import so1stbyte, soconnlat
from tests.support.command import running
from tests.support.needs import needs_messages

BLOCKING, BACKGROUND, UDP, REFUSED = 7, 5, 3, 3
DELAY = 0.05


@pytest.fixture(params=[("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)], ids=["IPv4", "IPv6"])
def server(request):
    """A listener whose connections are answered after a delay, twice, by another thread."""
    address, family = request.param
    with socket.create_server((address, 0), family=family) as listener:

        def serve():
            for _ in range(BLOCKING + BACKGROUND):
                connection, _ = listener.accept()
                with connection:
                    time.sleep(DELAY)
                    connection.sendall(b"first")
                    connection.recv(1)
                    connection.sendall(b"last")

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener
        thread.join()


def first_and_last(client):
    """Read both answers."""
    assert client.recv(99) == b"first"
    client.sendall(b"x")
    assert client.recv(99) == b"last"


def connect(listener):
    """Blocking and non-blocking connections; the seconds until each was established, by this process's clock."""
    elapsed = []
    for number in range(BLOCKING + BACKGROUND):
        with socket.socket(listener.family) as client:
            began = time.monotonic()
            if number < BLOCKING:
                client.connect(listener.getsockname())
            else:
                client.setblocking(False)
                with pytest.raises(BlockingIOError):
                    client.connect(listener.getsockname())
                select.select([], [client], [])
                client.setblocking(True)
            elapsed.append(time.monotonic() - began)
            first_and_last(client)
    return elapsed


def messages_can_be_traced():
    """Skip where the kernel has no tracepoints for messages, and no function of it can be traced."""
    needs_messages()


def test_so1stbyte(server):
    """One value for each connection, however it was made: at least the server's delay, at most what it took here."""
    messages_can_be_traced()
    with so1stbyte.open(pid=os.getpid()) as snapshot:
        began = time.monotonic()
        connect(server)
        most = time.monotonic() - began
        (found,) = snapshot()
    assert found.total == BLOCKING + BACKGROUND
    rows = found.rows()
    assert rows[0].high >= DELAY * 1e6
    assert rows[-1].low <= most * 1e6


def test_what_is_not_timed():
    """UNIX sockets, connections without data, reads of accepted sockets; of a UDP socket the first datagram is."""
    messages_can_be_traced()
    with so1stbyte.open(pid=os.getpid(), milliseconds=True) as snapshot:
        one, other = socket.socketpair()
        with one, other:
            one.send(b"x")
            other.recv(1)
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            client.connect(listener.getsockname())
            accepted, _ = listener.accept()
            with accepted:
                client.sendall(b"x")
                assert accepted.recv(1) == b"x"
        assert snapshot() == []
        for _ in range(UDP):
            with socket.socket(type=socket.SOCK_DGRAM) as here, socket.socket(type=socket.SOCK_DGRAM) as there:
                there.bind(("127.0.0.1", 0))
                here.connect(there.getsockname())
                here.send(b"x")
                for _ in range(2):
                    there.sendto(b"y", here.getsockname())
                    assert here.recv(1) == b"y"
        (found,) = snapshot()
    assert (found.total, found.unit) == (UDP, "msecs")


#: Longer than a slow machine takes for an answer: in the row of 512 to 1023 milliseconds.
PAUSE, LATE = 0.6, 512


def disconnect(client):
    """End a connection by connect(2) to AF_UNSPEC."""
    assert ctypes.CDLL(None).connect(client.fileno(), bytes(16), 16) == 0


@pytest.mark.parametrize("before", ["connection", "peer", "refusal", "in the background"])
def test_a_socket_that_connects_again(before):
    """Its time is that of the last connect(2) that made a connection, not of one that waits for it."""
    messages_can_be_traced()
    kind = socket.SOCK_DGRAM if before == "peer" else socket.SOCK_STREAM
    with (
        so1stbyte.open(pid=os.getpid(), milliseconds=True) as snapshot,
        socket.socket(type=kind) as server,
        socket.socket(type=kind) as client,
        socket.socket() as free,
    ):
        server.bind(("127.0.0.1", 0))
        free.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            server.listen()
        if before in ("connection", "peer"):
            client.connect(server.getsockname())
        else:
            client.setblocking(False)
            to = free if before == "refusal" else server
            assert client.connect_ex(to.getsockname()) == errno.EINPROGRESS
        time.sleep(PAUSE)
        if before == "connection":
            accepted, _ = server.accept()
            with accepted:
                disconnect(client)
        elif before == "refusal":
            assert client.connect_ex(free.getsockname()) == errno.ECONNREFUSED
        client.setblocking(True)
        client.connect(server.getsockname())
        if kind == socket.SOCK_DGRAM:
            server.sendto(b"x", client.getsockname())
            assert client.recv(1) == b"x"
        else:
            accepted, _ = server.accept()
            with accepted:
                accepted.sendall(b"x")
                assert client.recv(1) == b"x"
        (found,) = snapshot()
    assert found.total == 1
    (row,) = (each for each in found.rows() if each.count)
    assert (row.low >= LATE) == (before == "in the background")


def test_soconnlat(server):
    """One value for each connection, below what it took here, under a stack that begins in connect(2)."""
    with soconnlat.open(pid=os.getpid()) as snapshot:
        elapsed = connect(server)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            for _ in range(REFUSED):
                with socket.socket() as client:
                    assert client.connect_ex(free.getsockname())
        found = snapshot()
        assert snapshot() == []
    assert sum(each.total for each in found) == BLOCKING + BACKGROUND
    assert {each.labels["pid"] for each in found} == {os.getpid()}
    assert all("connect" in str(each.labels["stack"][0]) for each in found)
    assert max(each.rows()[-1].low for each in found) <= max(elapsed) * 1e6


# After a signal a command has less than a second for names, in which an emulated machine finds few.
@pytest.mark.any_kernel
def test_soconnlat_prints_stacks(server):
    """Below the process each function of the stack has a line; JSON has them in a list."""
    with running("soconnlat", "-p", str(os.getpid())) as text, running("soconnlat", "-m", "--json") as objects:
        connect(server)
        for tool in (text, objects):
            tool.stop()
    lines = text.out.splitlines()
    assert any(f"pid = {os.getpid()}" in line for line in lines)
    assert any(line.startswith("\t") and "connect" in line for line in lines)
    found = [each for each in objects.objects() if each["pid"] == os.getpid()]
    assert sum(bucket["count"] for each in found for bucket in each["buckets"]) == BLOCKING + BACKGROUND
    assert {each["unit"] for each in found} == {"msecs"}
    assert all("connect" in each["stack"][0] for each in found)
