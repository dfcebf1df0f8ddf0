"""socketio, socksize and sockstat: the messages of a process that sends and receives a known number of known sizes."""

from __future__ import annotations

from collections import Counter

import pytest

from pyebpf.programs import socketio
from tests.support import socket_messages as work
from tests.support.command import running
from tests.support.needs import needs_messages

NAME = "so-messages"


@pytest.fixture(autouse=True)
def messages_can_be_traced():
    """Skip where the kernel has no tracepoints for messages, and no function of it can be traced."""
    needs_messages()


@pytest.fixture
def process():
    with work.messages(NAME) as made:
        yield made


def test_socketio(process):
    """Messages and bytes of each direction, protocol and remote port; the end of a stream is a read of nothing."""
    with running("socketio", "--json", "-p", str(process.pid)) as objects, running("socketio", "--comm", NAME) as text:
        server, client, server6, client6, udp = process.run()
        for tool in (objects, text):
            tool.stop()
    found = objects.objects()
    assert {(row["pid"], row["comm"]) for row in found} == {(process.pid, NAME)}
    counted = {(row["direction"], row["protocol"], row["port"]): (row["count"], row["total_bytes"]) for row in found}
    (unix,) = {row["protocol"] for row in found} - {"TCP", "TCPv6", "UDP"}
    questions, answers = work.TCP * work.QUESTION, work.TCP * work.ANSWER
    assert unix.startswith("UNIX")
    assert counted == {
        ("write", "TCP", server): (work.TCP, questions),
        ("read", "TCP", client): (work.TCP + 1, questions),
        ("write", "TCP", client): (work.TCP, answers),
        ("read", "TCP", server): (work.TCP, answers),
        ("write", "TCPv6", server6): (work.TCP, questions),
        ("read", "TCPv6", client6): (work.TCP + 1, questions),
        ("write", "TCPv6", client6): (work.TCP, answers),
        ("read", "TCPv6", server6): (work.TCP, answers),
        ("write", "UDP", udp): (work.UDP, work.UDP * work.DATAGRAM),
        ("read", "UDP", None): (work.UDP, work.UDP * work.DATAGRAM),
        ("write", unix, None): (work.UNIX, work.UNIX * work.MESSAGE),
        ("read", unix, None): (work.UNIX, work.UNIX * work.MESSAGE),
    }
    lines = [line.split() for line in text.out.splitlines() if line]
    assert lines[0] == ["PID", "PROCESS", "DIR", "PROTO", "PORT", "COUNT", "BYTES"]
    assert {
        (line[2], line[3], None if line[4] == "-" else int(line[4])): (int(line[5]), int(line[6])) for line in lines[1:]
    } == counted
    assert [int(line[6]) for line in lines[1:]] == sorted(int(line[6]) for line in lines[1:])


def test_intervals_of_socketio(process):
    """As a library: each snapshot has what came since the last one."""
    with socketio.open(pid=process.pid) as snapshot:
        assert snapshot() == []
        process.run()
        first = snapshot()
        assert snapshot() == []
    assert sum(row.total for row in first if row.direction == "write") == sum(
        row.total for row in first if row.direction == "read"
    )


def test_socksize(process):
    """A histogram of each direction of the process, every size in its bucket."""
    with running("socksize", "--json", "--comm", NAME) as tool:
        process.run()
        tool.stop()
    sizes = {
        (each["comm"], each["direction"]): {
            (bucket["low"], bucket["high"]): bucket["count"] for bucket in each["buckets"] if bucket["count"]
        }
        for each in tool.objects()
    }
    sent = {(64, 127): 2 * work.TCP, (128, 255): 2 * work.TCP, (256, 511): work.UNIX, (512, 1023): work.UDP}
    assert sizes == {(NAME, "write"): sent, (NAME, "read"): {(0, 0): 2, **sent}}


def test_sockstat(process):
    """Calls as they begin, messages with those that fail, in blocks of a second each."""
    with running("sockstat", "--json", "-p", str(process.pid)) as tool:
        process.run()
        tool.stop()
    found = Counter()
    for row in tool.objects():
        found[row["event"]] += row["count"]
    assert found == {
        "accept4": 2,
        "bind": 3,
        "connect": 3,
        "listen": 2,
        "socket": 6,
        "socketpair": 1,
        "sock_sendmsg": 4 * work.TCP + work.UDP + work.UNIX,
        "sock_recvmsg": 4 * work.TCP + 2 + work.UDP + work.EMPTY + work.UNIX,
    }


def test_a_screen_of_sockstat(process):
    """Each second has its time, its heading and the events that there were."""
    with running("sockstat", "1", "3", "-p", str(process.pid)) as tool:
        process.run()
        assert tool.wait() == 0
    lines = [line.split() for line in tool.out.splitlines()]
    assert lines.count(["EVENT", "COUNT"]) == 3
    assert sum(int(line[1]) for line in lines if line[:1] == ["socketpair"]) == 1
