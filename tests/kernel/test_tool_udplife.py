"""udpconnect and udplife: UDP sockets that a process connects, with the bytes that it sends and receives."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections import Counter

import pytest

from pyebpf.kernel.syscall import address_of, syscall
from pyebpf.programs import udpconnect, udplife
from tests.support.command import pyebpf, running
from tests.support.needs import lacks, needs_functions

ME = os.getpid()
#: Connections of IPv4, of IPv6, and of IPv4 by sockets of IPv6.
NUMBERS = {"127.0.0.1": 23, "::1": 17, "::ffff:127.0.0.1": 13}
FUNCTIONS = ("attach:fentry", "attach:kprobe_multi", "attach:kprobe")
WAIT = 0.05


@pytest.fixture
def functions():
    """Skip where no function of the kernel can be traced."""
    needs_functions()


def shown(address):
    return address.removeprefix("::ffff:")


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def disconnect(end):
    """connect(2) to an address of the family AF_UNSPEC."""
    nothing = bytearray(16)
    syscall("connect", end.fileno(), address_of(nothing), len(nothing))


def connect_all():
    """Connect sockets, also to port 0, again and not at all; return what is connected: local and remote ends."""
    made = []
    for address, number in NUMBERS.items():
        for count in range(number):
            with socket.socket(family(address), socket.SOCK_DGRAM) as end:
                end.connect((address, 4099 if count else 0))
                if count:
                    local, port = end.getsockname()[:2]
                    made.append((shown(local), port, shown(address), 4099))
                else:
                    made.append((None, None, shown(address), 0))
                disconnect(end)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end, socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(OSError, match=r"Permission denied|unreachable"):
            end.connect(("255.255.255.255", 4099))
        socket.create_connection(server.getsockname()).close()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as two,
    ):
        one.bind("\0udp-connect")
        two.connect("\0udp-connect")
    return made


def test_udpconnect():
    """Each connect(2) that connects a UDP socket; none that ends a connection, fails or is of another protocol."""
    with running("udpconnect", "--json", "-p", str(ME)) as objects, running("udpconnect", "-p", str(ME)) as text:
        made = connect_all()
        for tool in (objects, text):
            tool.stop()
    found = objects.objects()
    names = ("local_address", "local_port", "remote_address", "remote_port")
    assert [
        tuple(record[name] if record["remote_port"] or "remote" in name else None for name in names) for record in found
    ] == made
    assert Counter(record["ip_version"] for record in found) == {4: 23 + 13, 6: 17}
    assert {record["pid"] for record in found} == {ME}
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "PID", "COMM", "IP", "RADDR", "RPORT"]
    assert [line.split()[-2:] for line in lines] == [[remote, str(port)] for _, _, remote, port in made]
    assert max(map(len, [heading, *lines])) <= 80


def test_filters_of_udpconnect():
    """By ports, address and version; a library's record has addresses as ipaddress has them."""
    with (
        udpconnect.open(pid=ME, ipv6=True) as six,
        udpconnect.open(pid=ME, remote_ports=(0,)) as zero,
        udpconnect.open(pid=ME, address="192.0.2.0/24") as nobody,
    ):
        connect_all()
        assert {str(next(six).ends.remote) for _ in range(17)} == {"::1"}
        assert [next(zero).ends.remote_port for _ in range(3)] == [0] * 3
    assert list(nobody) == []


def test_udplife(functions):
    """Each connection with its bytes and its time, also of IPv4 by sockets of IPv6."""
    expected = []
    with contextlib.ExitStack() as stack:
        json_, text = (
            stack.enter_context(running("udplife", *arguments, "-p", str(ME))) for arguments in (("--json",), ())
        )
        for address, number in NUMBERS.items():
            with socket.socket(family(address), socket.SOCK_DGRAM) as server:
                server.bind((address, 0))
                for count in range(number):
                    with socket.socket(family(address), socket.SOCK_DGRAM) as client:
                        client.connect(server.getsockname()[:2])
                        client.send(bytes(count * 101 + 1))
                        _, sender = server.recvfrom(65_536)
                        server.sendto(bytes(count * 7 + 3), sender)
                        assert client.recv(1, socket.MSG_PEEK)
                        assert len(client.recv(65_536)) == count * 7 + 3
                        ends = (shown(sender[0]), sender[1], shown(address), server.getsockname()[1])
                        expected.append((*ends, count * 101 + 1, count * 7 + 3))
        for tool in (json_, text):
            tool.stop()
    names = ("local_address", "local_port", "remote_address", "remote_port", "sent_bytes", "received_bytes")
    found = json_.objects()
    assert [tuple(record[name] for name in names) for record in found] == expected
    assert {record["pid"] for record in found} == {ME}
    assert all(record["lifespan_ns"] > 0 for record in found)
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PID", "COMM", "LADDR", "LPORT", "RADDR", "RPORT", "TX_B", "RX_B", "MS"]
    assert [line.split()[-3:-1] for line in lines] == [list(map(str, each[4:])) for each in expected]
    assert len(heading) <= 80


def test_ends_of_connections(functions):
    """By a second connect(2), by one that disconnects, by the last close(2); what was sent before does not count."""
    with udplife.open(pid=ME) as connections, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(bytes(5), ("127.0.0.1", 4098))
        began = time.monotonic_ns()
        end.connect(("127.0.0.1", 4099))
        # What a closed port answers is an error of the next call.
        end.setsockopt(socket.SOL_IP, 11, struct.pack("i", 0))
        end.send(bytes(7))
        end.connect(("127.0.0.1", 4100))
        disconnect(end)
        end.connect(("127.0.0.1", 4101))
        copy = os.dup(end.fileno())
        end.close()
        time.sleep(WAIT)
        os.close(copy)
        found = [next(connections) for _ in range(3)]
        ended = time.monotonic_ns()
    assert [(each.ends.remote_port, each.sent) for each in found] == [(4099, 7), (4100, 0), (4101, 0)]
    assert found[-1].lifespan >= WAIT * 10**9
    assert all(began <= each.began <= each.ended <= ended for each in found)


def test_udplife_without_functions():
    """The end of a socket is a function's call: where none can be traced, one line says so."""
    for each in FUNCTIONS:
        lacks(each)
    done = pyebpf("udplife", "-d", "1")
    assert done.returncode == 1
    assert done.stderr.startswith("pyebpf udplife: ")
    assert len(done.stderr.splitlines()) == 1
