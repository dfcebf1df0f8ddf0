"""tcpnagle and tcpiplat: segments of known numbers, sent at once and held back."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

import pytest

from pyebpf.programs import tcpiplat, tcpnagle
from tests.support import tcp_peer
from tests.support.command import running
from tests.support.needs import needs_functions
from tests.support.waiting import wait_until

AT_ONCE, HELD = 23, 7
WAIT = 0.05
#: Offsets in struct tcp_info.
UNACKED, SEGS_OUT = 24, 136


@pytest.fixture(autouse=True)
def functions():
    """Skip where no function of the kernel can be traced."""
    needs_functions()


@contextlib.contextmanager
def connection(address="127.0.0.1"):
    """Both ends of a connection: the client's, the server's."""
    with socket.create_server((address, 0), family=tcp_peer.family(address)) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server, _ = listener.accept()
        with client, server:
            yield client, server


def info(end, offset):
    """A number of struct tcp_info."""
    return struct.unpack_from("=I", end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160), offset)[0]


def send(client, server):
    """Bytes that go at once, then those that wait for a cork to be pulled."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(AT_ONCE):
        client.sendall(b"x")
        tcp_peer.receive(server, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    for _ in range(HELD):
        # Before nothing is in flight, data waits for the ACK.
        wait_until(lambda: info(client, UNACKED) == 0)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        client.sendall(bytes(7))
        time.sleep(WAIT)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        tcp_peer.receive(server, 7)


def test_flags_and_times():
    """A count for each attempt by its flags, and for each that was held back how long."""
    with connection() as (client, server):
        port = str(client.getsockname()[1])
        with (
            running("tcpnagle", "--json", "-L", port) as counts,
            running("tcpnagle", "-b", "-m", "--json", "-L", port) as times,
            running("tcpnagle", "-L", port) as text,
            running("tcpnagle", "--json", "-D", "1") as none,
        ):
            send(client, server)
            for tool in (counts, times, text, none):
                tool.stop()
    found = {record["flags"]: (record["count"], record["held_count"]) for record in counts.objects()}
    assert found["OFF"] == (AT_ONCE, 0)
    assert found["CORK"][1] >= HELD
    assert found["none"] == (HELD, 0)
    (histogram,) = times.objects()
    assert sum(bucket["count"] for bucket in histogram["buckets"]) == HELD
    assert all(bucket["low"] >= 32 for bucket in histogram["buckets"] if bucket["count"])
    heading, *lines = [line for line in text.out.splitlines() if line]
    assert heading.split() == ["FLAGS", "COUNT", "HELD"]
    assert ["OFF", str(AT_ONCE), "0"] in [line.split() for line in lines]
    assert "time that data was held back:" in lines
    assert none.objects() == []


def test_the_library():
    """`tcpnagle.open` gives rows, with `blocked` histograms."""
    with connection() as (client, server):
        mine = (client.getsockname()[1],)
        with tcpnagle.open(local_ports=mine) as rows, tcpnagle.open(local_ports=mine, blocked=True) as blocked:
            send(client, server)
            assert {row.flags: row.count for row in rows()}["OFF"] == AT_ONCE
            (histogram,) = blocked()
            assert (histogram.unit, histogram.total) == ("usecs", HELD)
            assert rows() == []


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_each_segment_reaches_its_device(address):
    """As many as the connection sent, by the kernel's count, in whichever unit."""
    with connection(address) as (client, server):
        mine = (client.getsockname()[1],)
        before = info(client, SEGS_OUT)
        with (
            tcpiplat.open(local_ports=mine) as microseconds,
            tcpiplat.open(local_ports=mine, nanoseconds=True) as nanoseconds,
            tcpiplat.open(remote_ports=mine, milliseconds=True) as other,
        ):
            send(client, server)
            wait_until(lambda: info(client, SEGS_OUT) - before >= AT_ONCE + HELD)
            (one,), (two,), (three,) = microseconds(), nanoseconds(), other()
            sent = info(client, SEGS_OUT) - before
    assert [one.unit, two.unit, three.unit] == ["usecs", "nsecs", "msecs"]
    assert one.total == two.total == sent
    assert three.total > 0
    assert min(bucket.low for bucket in two.rows() if bucket.count) > 0
