"""tcpconnect and tcpaccept: each open and accept in a namespace of the test's own, as many as the kernel counts."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections import Counter

import pytest

from pyebpf.output.columns import Row
from pyebpf.programs import tcpaccept, tcpconnect
from tests.support import tcp_opens
from tests.support.command import running

NAME = "tcp-opens"
ENDS = ("local_address", "local_port", "remote_address", "remote_port")
CONNECTS = tcp_opens.FOUR + 1 + tcp_opens.SIX + tcp_opens.MAPPED + tcp_opens.REFUSED + 1
ACCEPTS = tcp_opens.FOUR + 1 + tcp_opens.SIX + tcp_opens.MAPPED
LOST = f'"{tcp_opens.BLACK_HOLE}"'


@pytest.fixture
def space(make_namespace):
    return make_namespace()


@contextlib.contextmanager
def working(space):
    """The workload under way: its process, and what it tells at its end."""
    command = space.inside(sys.executable, tcp_opens.__file__, NAME)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        told = {}
        yield process, told
        told.update(json.loads(process.stdout.read()))


def ends(record, known):
    """Both ends of a record; without the local port where the workload does not know it."""
    return [
        record[name] if port or name != "local_port" else 0 for name, port in zip(ENDS, (1, known, 1, 1), strict=True)
    ]


def work(space):
    with working(space) as (_, told):
        pass
    return told


def test_each_open(space):
    """Of both families, waiting or not, refused; a lost one is told before it gives up, one without a port is none."""
    here = ("--netns", str(space.pid))
    with running("tcpconnect", "--json", *here) as objects, running("tcpconnect", *here) as text:
        with working(space) as (process, told):
            objects.await_text(LOST)
            assert process.poll() is None
        for tool in (objects, text):
            tool.stop()
    found = objects.objects()
    assert len(found) == told["active"] == CONNECTS
    assert [ends(one, other[1]) for one, other in zip(found, told["connects"], strict=True)] == told["connects"]
    assert all(record["local_port"] for record in found)
    assert {(record["pid"], record["comm"]) for record in found} == {(told["pid"], NAME)}
    assert Counter(record["ip_version"] for record in found) == {4: CONNECTS - tcp_opens.SIX, 6: tcp_opens.SIX}
    times = [record["time"] for record in found]
    assert times == sorted(times)
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "PID", "COMM", "IP", "LADDR", "LPORT", "RADDR", "RPORT"]
    assert len(heading) <= 80
    assert [line.split()[1:] for line in lines] == [
        [str(record[name]) for name in ("pid", "comm", "ip_version", *ENDS)] for record in found
    ]
    assert max(map(len, lines)) <= 80


def test_counts(space):
    """-c: a row for each address and port, the most last, with the opens of one to another in one count."""
    with running("tcpconnect", "-c", "--json", "--netns", str(space.pid)) as tool:
        told = work(space)
        tool.stop()
    expected = Counter((local, remote, port) for local, _, remote, port in told["connects"])
    found = tool.objects()
    assert {(r["local_address"], r["remote_address"], r["remote_port"]): r["count"] for r in found} == expected
    assert [r["count"] for r in found] == sorted(expected.values())


def test_users_and_source_ports():
    """-U has the user of each open in a column of its own; -c -s counts by local port, which no two opens share."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with (
            tcpconnect.open(remote_ports=(port,), print_uid=True) as connects,
            tcpconnect.open(remote_ports=(port,), counts=True, source_port=True) as counts,
            contextlib.ExitStack() as clients,
        ):
            for user in (1009, 0):
                os.setresuid(user, -1, -1)
                clients.enter_context(socket.create_connection(listener.getsockname()))
            found = [next(connects), next(connects)]
            rows = counts()
    assert [each.uid for each in found] == [1009, 0]
    assert {(row.ends.local_port, row.count) for row in rows} == {(each.ends.local_port, 1) for each in found}
    printed = Row(tcpconnect.columns(tcpconnect.Options(print_uid=True)))
    assert printed.header().split()[:3] == ["TIME", "UID", "PID"]
    assert printed.line(found[0]).split()[1:3] == ["1009", str(os.getpid())]
    assert len(printed.header()) <= 88
    counted = Row(tcpconnect.count_columns(tcpconnect.Options(counts=True, source_port=True)))
    assert counted.header().split() == ["LADDR", "LPORT", "RADDR", "RPORT", "CONNECTS"]
    assert [counted.object(row)["local_port"] for row in rows] == [row.ends.local_port for row in rows]


def test_each_accept(space):
    """In order, with the listener's limit and what waited behind it; IPv4 at a socket of IPv6 is IPv4."""
    here = ("--netns", str(space.pid))
    with running("tcpaccept", "--json", *here) as objects, running("tcpaccept", *here) as text:
        told = work(space)
        for tool in (objects, text):
            tool.stop()
    found = objects.objects()
    assert len(found) == told["passive"] == ACCEPTS
    assert [[record[name] for name in ENDS] for record in found] == told["accepts"]
    assert {(record["pid"], record["comm"], record["backlog_limit"]) for record in found} == {
        (told["pid"], NAME, tcp_opens.BACKLOG)
    }
    four, mapped = [0] * tcp_opens.FOUR, [0] * tcp_opens.MAPPED
    waiting = list(range(tcp_opens.SIX - 1, -1, -1))
    assert [record["backlog"] for record in found] == [*four, *waiting, *mapped, 0]
    assert Counter(record["ip_version"] for record in found) == {4: ACCEPTS - tcp_opens.SIX, 6: tcp_opens.SIX}
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "PID", "COMM", "RADDR", "RPORT", "LADDR", "LPORT", "BL"]
    assert [line.split()[-1] for line in lines] == [f"{r['backlog']}/{tcp_opens.BACKLOG}" for r in found]
    assert max(map(len, lines)) <= 80


def test_filters():
    """By process, ports, address and version; a library's record has addresses as ipaddress has them."""
    me = os.getpid()
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        port, other = four.getsockname()[1], six.getsockname()[1]
        with (
            tcpconnect.open(pid=me, ipv6=True) as only_six,
            tcpconnect.open(pid=me, remote_ports=(1, port)) as by_port,
            tcpconnect.open(pid=me, address="127.0.0.0/8") as by_network,
            tcpconnect.open(comm="no such name") as by_name,
            tcpaccept.open(pid=me, local_ports=(other,)) as accepted,
            tcpaccept.open(pid=me, address="127.0.0.1") as from_four,
        ):
            for listener in (six, four, six, four, six):
                socket.create_connection(listener.getsockname()[:2]).close()
                listener.accept()[0].close()
            found = [next(only_six) for _ in range(3)]
            assert {(str(each.ends.remote), each.ends.remote_port) for each in found} == {("::1", other)}
            for records in (by_port, by_network):
                assert {(str(r.ends.remote), r.ends.remote_port) for r in (next(records), next(records))} == {
                    ("127.0.0.1", port)
                }
            assert [next(accepted).ends.local_port for _ in range(3)] == [other] * 3
            assert {next(from_four).ends.remote.version for _ in range(2)} == {4}
            # Had there been one, it would come before this one.
            with contextlib.ExitStack() as stack:
                stack.enter_context(socket.create_connection(four.getsockname()))
                stack.enter_context(four.accept()[0])
                assert next(by_port).ends.remote_port == port
    assert list(by_name) == []
