"""skblife: buffers of datagrams, messages and streams, each from its allocation to its end."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from pyebpf.programs import skblife
from tests.support.command import running
from tests.support.needs import needs_functions
from tests.support.traffic import inside
from tests.support.waiting import wait_until

MESSAGES, WAITING, STREAM = 1009, 17, 3_000_017
#: Buffers of others that may live or be in use meanwhile: of other sockets, of netlink.
OTHERS = 97


@pytest.fixture(autouse=True)
def functions():
    """Skip where no function of the kernel can be traced."""
    needs_functions()


def lives(bpf):
    return bpf["lifespan"].snapshot().total


def datagrams():
    """Over loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        for _ in range(MESSAGES):
            end.sendto(b"x" * 100, end.getsockname())
            end.recv(200)


def datagrams6():
    """Over loopback."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as end:
        end.bind(("::1", 0))
        for _ in range(MESSAGES):
            end.sendto(b"x" * 100, end.getsockname())
            end.recv(200)


def messages():
    """Of a UNIX socket."""
    one, other = socket.socketpair()
    with one, other:
        for _ in range(MESSAGES):
            one.send(b"x")
            other.recv(2)


@pytest.mark.parametrize("work", [datagrams, datagrams6, messages])
def test_each_message_is_one_life(work):
    """1,009 messages are as many lives, and some of others; none is left that began and has no end."""
    with skblife.build(skblife.Options()) as bpf:
        before, under_way = lives(bpf), len(bpf["buffers"])
        work()
        after, still = lives(bpf), len(bpf["buffers"])
    assert MESSAGES <= after - before <= MESSAGES + OTHERS
    assert abs(still - under_way) <= OTHERS


def stream(listener, space=None):
    """A stream of 3,000,017 bytes, to its end."""

    def take():
        end, _ = listener.accept()
        with end:
            while end.recv(1 << 16):
                pass

    thread = threading.Thread(target=take)
    thread.start()
    if space is None:
        client = socket.socket()
    else:
        with inside(space):
            client = socket.socket()
    with client:
        client.connect(listener.getsockname())
        client.sendall(bytes(STREAM))
    thread.join()


def check_stream(listener, space=None):
    """No buffer of a stream stays without an end: there were many."""
    with listener, skblife.build(skblife.Options()) as bpf:
        before, under_way = lives(bpf), len(bpf["buffers"])
        stream(listener, space)
        wait_until(lambda: abs(len(bpf["buffers"]) - under_way) <= OTHERS, lambda: len(bpf["buffers"]))
        # TCP puts at most 64 KiB into a buffer, and sends a clone of each.
        assert lives(bpf) - before >= 2 * STREAM // (1 << 16)


def test_buffers_of_a_stream_over_loopback():
    """Those that TCP keeps until they are acknowledged, their clones, and ACKs."""
    check_stream(socket.create_server(("127.0.0.1", 0)))


def test_buffers_of_a_stream_over_veth(pair):
    """Through the queues of two devices."""
    here, there = pair
    with inside(there):
        listener = socket.create_server(("10.251.0.2", 0))
    check_stream(listener, here)


@pytest.mark.machine(devices=("nic",))
def test_buffers_of_a_stream_through_cards(cards):
    """Those that a driver makes from each processor's stock, and gives back to it."""
    here, there, _ = cards
    with inside(there):
        listener = socket.create_server(("10.252.0.2", 0))
    check_stream(listener, here)


def test_the_time_that_datagrams_wait():
    """17 datagrams that are read after 1.1 seconds have lived so long, as text, JSON and CSV."""
    with (
        running("skblife", "-m") as text,
        running("skblife", "--json") as objects,
        running("skblife", "-m", "--csv") as rows,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end,
    ):
        end.bind(("127.0.0.1", 0))
        for _ in range(WAITING):
            end.sendto(b"x", end.getsockname())
        time.sleep(1.1)
        for _ in range(WAITING):
            end.recv(2)
        for tool in (text, objects, rows):
            tool.stop()
    (record,) = objects.objects()
    assert record["unit"] == "nsecs"
    assert [b["count"] for b in record["buckets"] if b["low"] == 1 << 30] == [WAITING]
    assert [int(row["count"]) for row in rows.rows() if row["low"] == "1024"] == [WAITING]
    assert {row["unit"] for row in rows.rows()} == {"msecs"}
    (line,) = [line for line in text.out.splitlines() if line.strip().startswith("1024 -> 2047")]
    assert line.partition(":")[2].split()[0] == str(WAITING)
