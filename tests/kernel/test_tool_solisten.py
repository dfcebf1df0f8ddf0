"""solisten and tcpbind: the calls of a process that notes what it does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pyebpf.programs import solisten, tcpbind
from tests.support import socket_calls
from tests.support.command import running

NAME = "so-binds"


@pytest.fixture
def caller():
    with socket_calls.calls(NAME) as process:
        yield process


def test_solisten(caller):
    """Each listen(2) in order, of every family, with the port that the kernel chose, and one of a UDP socket."""
    with (
        running("solisten", "--json", "--comm", NAME) as objects,
        running("solisten", "-n", "-p", str(caller.pid)) as text,
    ):
        made = [each for each in caller.run() if each["call"] == "listen"]
        for tool in (objects, text):
            tool.stop()
    found = objects.objects()
    assert len(made) == 5
    assert [(each["address"], each["port"], each["error"]) for each in found] == [
        (each["address"], each["port"], each["error"]) for each in made
    ]
    assert {each["backlog"] for each in found} == {socket_calls.BACKLOG}
    assert [each["limit"] for each in found[:4]] == [socket_calls.BACKLOG] * 4
    assert [each["protocol"] for each in found][:2] == ["TCP", "TCPv6"]
    assert [each["protocol"].startswith("UNIX") for each in found] == [False, False, True, True, False]
    assert {each["netns"] for each in found} == {Path("/proc/self/ns/net").stat().st_ino}
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PID", "COMM", "NETNS", "PROTO", "BACKLOG", "PORT", "ADDR", "RESULT"]
    assert [line.split()[4:] for line in lines] == [
        [str(socket_calls.BACKLOG), "-" if each["port"] is None else str(each["port"]), each["address"], result]
        for each, result in zip(made, ["Success"] * 4 + ["EOPNOTSUPP"], strict=True)
    ]


def test_a_backlog_above_the_limit():
    """BACKLOG is what was asked for, the limit net.core.somaxconn's; -x leaves out what succeeds."""
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    with solisten.open(pid=os.getpid()) as listens, solisten.open(pid=os.getpid(), failed=True) as failures:
        with socket.create_server(("127.0.0.1", 0), backlog=most + 7):
            pass
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf, pytest.raises(OSError, match="not supported"):
            deaf.listen(3)
        listen, failure = next(listens), next(failures)
    assert (listen.backlog, listen.limit, listen.error) == (most + 7, most, None)
    assert (failure.backlog, failure.error) == (3, "EOPNOTSUPP")


def test_tcpbind(caller):
    """Each bind(2) of a TCP socket in order; one that failed with the port asked for; none of UNIX sockets."""
    with running("tcpbind", "--json", "--comm", NAME) as objects, running("tcpbind", "-p", str(caller.pid)) as text:
        made = [each for each in caller.run() if each["call"] == "bind" and each["family"] != "UNIX"]
        for tool in (objects, text):
            tool.stop()
    found = objects.objects()
    assert len(made) == 4
    assert [(each["local_address"], each["local_port"], each["error"]) for each in found] == [
        (each["address"], each["port"], each["error"]) for each in made
    ]
    assert [each["requested_port"] for each in found] == [0, 0, 0, made[-1]["port"]]
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PID", "COMM", "LADDR", "LPORT", "RESULT"]
    assert [line.split() for line in lines] == [
        [str(caller.pid), NAME, each["address"], str(each["port"]), each["error"] or "Success"] for each in made
    ]


def test_filters_of_tcpbind():
    """-L keeps a port, whether chosen or asked for, -x what failed; UDP is left out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with tcpbind.open(local_ports=(port,)) as of_port, tcpbind.open(pid=os.getpid(), failed=True) as failed:
            with socket.socket() as free, socket.socket() as taken, socket.socket(type=socket.SOCK_DGRAM) as other:
                other.bind(("127.0.0.1", port))
                free.bind(("127.0.0.1", 0))
                with pytest.raises(OSError, match="in use"):
                    taken.bind(("127.0.0.1", port))
            found = next(of_port), next(failed)
    assert [(each.local.port, each.error, each.asked) for each in found] == [(port, "EADDRINUSE", port)] * 2
