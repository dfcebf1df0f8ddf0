"""soconnect, soaccept, sofamily and soprotocol: the calls of a process that notes what it does."""

from __future__ import annotations

import os
import socket
from collections import Counter
from pathlib import Path

import pytest

from pyebpf.kernel.syscall import address_of, syscall
from pyebpf.programs import soaccept, soconnect, sofamily, soprotocol
from tests.support import socket_calls
from tests.support.command import running

NAME = "so-calls"
COMM = Path("/proc/self/comm")


@pytest.fixture
def caller():
    with socket_calls.calls(NAME) as process:
        yield process


def fields(records, *names):
    return [tuple(record[name] for name in names) for record in records]


def test_soconnect(caller):
    """Each connect(2) of all families in order, with address, port and error; none took longer than its caller saw."""
    with running("soconnect", "--json") as objects, running("soconnect", "-p", str(caller.pid)) as text:
        made = [each for each in caller.run() if each["call"] == "connect"]
        for tool in (objects, text):
            tool.stop()
    found = [each for each in objects.objects() if each["pid"] == caller.pid]
    names = ("family", "address", "port", "error")
    assert fields(found, *names) == fields(made, *names)
    assert Counter(each["error"] for each in found) == {
        None: 23 + 17 + 2 * 13 + socket_calls.UDP,
        "ECONNREFUSED": socket_calls.REFUSED,
    }
    assert {each["comm"] for each in found} == {NAME}
    assert all(0 < one["latency_ns"] <= other["elapsed"] for one, other in zip(found, made, strict=True))
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PID", "PROCESS", "FAM", "ADDRESS", "PORT", "LAT(us)", "RESULT"]
    expected = [
        [each["family"], each["address"], str(each["port"] or "-"), each["error"] or "Success"] for each in made
    ]
    assert [[*line.split()[2:5], line.split()[6]] for line in lines] == expected


def test_soaccept(caller):
    """Each accept(2) in order: the peer of IP, the listener's path of UNIX, its family if it fails."""
    with running("soaccept", "--json") as objects, running("soaccept", "-p", str(caller.pid), "--csv") as rows:
        made = [each for each in caller.run() if each["call"] == "accept"]
        for tool in (objects, rows):
            tool.stop()
    found = [each for each in objects.objects() if each["pid"] == caller.pid]
    names = ("family", "address", "port", "local_port", "error")
    assert fields(found, *names) == fields(made, *names)
    assert Counter(each["error"] for each in found) == {None: 23 + 17 + 2 * 13, "EAGAIN": 4 * socket_calls.EMPTY}
    assert [tuple(row[name] or None for name in ("family", "address", "error")) for row in rows.rows()] == fields(
        made, "family", "address", "error"
    )


def test_filters(caller):
    """-x leaves out what succeeds, --comm other names; a library's record has the address as ipaddress has it."""
    with (
        soconnect.open(comm=NAME, failed=True) as connects,
        soaccept.open(comm=NAME, failed=True) as accepts,
        soconnect.open(comm="so-other") as others,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        socket.create_connection(server.getsockname()).close()
        caller.run()
        refused = [next(connects) for _ in range(socket_calls.REFUSED)]
        empty = [next(accepts) for _ in range(4 * socket_calls.EMPTY)]
        # Those of others would have come before this one.
        own = COMM.read_text().rstrip("\n")
        COMM.write_text("so-other")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.connect(("127.0.0.1", 4099))
        COMM.write_text(own)
        last = next(others)
    assert {str(each.to.address) for each in refused} == {"127.0.0.1"}
    assert {each.error for each in refused} == {"ECONNREFUSED"}
    assert {each.error for each in empty} == {"EAGAIN"}
    assert (last.pid, last.to.port, last.error) == (os.getpid(), 4099, None)


def test_what_is_no_socket():
    """A call on a file, or on no descriptor, is reported with its error."""
    address = bytearray(b"\2\0\x10\3\x7f\0\0\1" + bytes(8))  # 127.0.0.1:4099
    with soconnect.open(pid=os.getpid()) as connects, soaccept.open(pid=os.getpid()) as accepts:
        with Path("/dev/null").open("rb") as file:
            for descriptor in (file.fileno(), -1, 1 << 20):
                with pytest.raises(OSError, match=r"non-socket|Bad file"):
                    syscall("connect", descriptor, address_of(address), len(address))
                with pytest.raises(OSError, match=r"non-socket|Bad file"):
                    syscall("accept", descriptor, 0, 0)
        connected, accepted = ([next(calls) for _ in range(3)] for calls in (connects, accepts))
    assert [each.error for each in connected] == [each.error for each in accepted] == ["ENOTSOCK", "EBADF", "EBADF"]
    assert {str(each.to) for each in connected} == {"127.0.0.1:4099"}
    assert {each.peer.family for each in accepted} == {0}


ENDS = [
    ("accept", "INET", 23),
    ("accept", "INET6", 17),
    ("accept", "UNIX", 26),
    ("connect", "INET", 23),
    ("connect", "INET6", 17 + socket_calls.UDP),
    ("connect", "UNIX", 26),
]


def test_sofamily(caller):
    """Connections by call and family; those that were refused and accepts of nobody are not counted."""
    with running("sofamily", "--json", "--comm", NAME) as objects, running("sofamily") as text:
        caller.run()
        for tool in (objects, text):
            tool.stop()
    found = objects.objects()
    assert sorted(fields(found, "call", "family", "count")) == ENDS
    assert {each["comm"] for each in found} == {NAME}
    lines = [line.split() for line in text.out.splitlines()]
    assert ["CALL", "PROCESS", "FAMILY", "COUNT"] in lines
    assert sorted((line[0], line[2], int(line[3])) for line in lines if NAME in line) == ENDS


def test_soprotocol(caller):
    """Connections by call, protocol and transport: the kernel's own names, which had one for UNIX before Linux 5.15."""
    with running("soprotocol", "--json", "--comm", NAME) as objects:
        caller.run()
        objects.stop()
    found = {(each["call"], each["protocol"], each["transport"]): each["count"] for each in objects.objects()}
    (unix,) = {transport for _, protocol, transport in found if protocol == "0"}
    assert unix in {"UNIX", "UNIX-STREAM"}
    assert found == {
        ("accept", "TCP", "TCP"): 23,
        ("accept", "TCP", "TCPv6"): 17,
        ("accept", "0", unix): 26,
        ("connect", "TCP", "TCP"): 23,
        ("connect", "TCP", "TCPv6"): 17,
        ("connect", "UDP", "UDPv6"): socket_calls.UDP,
        ("connect", "0", unix): 26,
    }


def test_what_goes_on_and_what_ends_an_association():
    """A connection that goes on in the background counts, connect(2) with AF_UNSPEC does not; each interval anew."""
    with sofamily.open(pid=os.getpid()) as families, soprotocol.open(pid=os.getpid()) as protocols:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.connect(server.getsockname())
        first = [(row.call, row.family, row.count) for row in families()]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.connect(("127.0.0.1", 4099))
            disconnect(end)
            end.connect(("127.0.0.1", 4111))
        assert [(row.call, row.family, row.count) for row in families()] == [(0, socket.AF_INET, 2)]
        assert families() == []
        counted = [(row.transport, row.count) for row in protocols()]
    assert first == [(0, socket.AF_INET, 1)]
    assert counted == [("TCP", 1), ("UDP", 2)]


def disconnect(end):
    """connect(2) with AF_UNSPEC, which Python does not write."""
    address = bytearray(16)
    syscall("connect", end.fileno(), address_of(address), len(address))
