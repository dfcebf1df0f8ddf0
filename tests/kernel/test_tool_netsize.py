"""netsize: datagrams of one size between two namespaces, and a stream that the kernel splits and joins."""

from __future__ import annotations

import socket
import threading

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.programs import netsize
from tests.support.command import running
from tests.support.namespaces import namespace
from tests.support.offload import split_in_software
from tests.support.traffic import connect, inside, receiver, send, settled

PACKETS, PAYLOAD, STREAM = 101, 300, 1_000_003
SENT, RECEIVED = PAYLOAD + 8 + 20 + 14, PAYLOAD + 8 + 20  # UDP, IPv4, Ethernet


@pytest.fixture(scope="module")
def quiet():
    """Two joined namespaces in which nothing is sent but by the test."""
    with namespace() as here, namespace() as there:
        for each in (here, there):
            each.disable_ipv6()
        connect(here, there)
        for space, other, number in ((here, there, 2), (there, here, 1)):
            address = other.run("ip", "-brief", "link", "show", "veth0").split()[2]
            # On a slow machine ARP would ask again, which is a packet, too.
            space.configure(f"neighbour replace 10.251.0.{number} lladdr {address} dev veth0 nud permanent")
        yield here, there


def datagrams(here, there):
    with receiver(there, 7907) as end:
        send(here, ("10.251.0.2", 7907), PACKETS, b"x" * PAYLOAD)
        assert settled(end, PACKETS) == PACKETS


def counted(objects):
    """Packets by device and place, of the bucket with the datagrams' sizes and of all."""
    return {
        (o.get("device"), o["size"]): (
            sum(b["count"] for b in o["buckets"] if b["low"] <= RECEIVED <= SENT <= b["high"]),
            sum(b["count"] for b in o["buckets"]),
        )
        for o in objects
    }


def packets(space, name, column):
    """A column of the kernel's own table of devices: 1 of packets received, 9 of packets sent."""
    (line,) = [line for line in space.run("cat", "/proc/net/dev").splitlines() if line.strip().startswith(name)]
    return int(line.partition(":")[2].split()[column])


def test_datagrams_at_every_place(quiet):
    """101 handed to the device and sent by it, 101 received, with their sizes; the kernel's table has as many."""
    here, there = quiet
    with (
        running("netsize", "--devices", "--netns", here.path, "--json") as sender,
        running("netsize", "--netns", there.path, "--csv") as taker,
        running("netsize", "--netns", here.path) as text,
    ):
        before = packets(here, "veth0", 9), packets(there, "veth0", 1)
        datagrams(here, there)
        after = packets(here, "veth0", 9), packets(there, "veth0", 1)
        for tool in (sender, taker, text):
            tool.stop()
    assert (after[0] - before[0], after[1] - before[1]) == (PACKETS, PACKETS)
    assert counted(sender.objects()) == {
        ("veth0", "send_bytes"): (PACKETS, PACKETS),
        ("veth0", "nic_send_bytes"): (PACKETS, PACKETS),
    }
    assert {o["unit"] for o in sender.objects()} == {"bytes"}
    (row,) = [row for row in taker.rows() if int(row["count"])]
    assert (row["size"], int(row["count"])) == ("recv_bytes", PACKETS)
    assert int(row["low"]) <= RECEIVED <= int(row["high"])
    lines = text.out.splitlines()
    assert [line for line in lines if "size" in line] == ["size = 'send_bytes'", "size = 'nic_send_bytes'"]
    assert sum(f": {PACKETS} " in line for line in lines) == 2
    assert all(len(line) <= 80 for line in lines)


def test_a_stream_before_and_after_segmentation(quiet):
    """TCP hands on up to 64 KiB at once; where the kernel splits them, the device sends at most 1,514 bytes."""
    here, there = quiet
    split_in_software(here, "veth0")
    with inside(there):
        server = socket.create_server(("10.251.0.2", 7919))

    def take():
        end, _ = server.accept()
        with end:
            while end.recv(1 << 16):
                pass

    thread = threading.Thread(target=take)
    with server, netsize.open(netns=here.path, interface="veth0") as snapshot:
        thread.start()
        with inside(here):
            client = socket.socket()
        with client:
            client.connect(("10.251.0.2", 7919))
            client.sendall(bytes(STREAM))
        thread.join()
        found = {h.labels["size"]: h for h in snapshot()}
    largest = {name: histogram.rows()[-1] for name, histogram in found.items()}
    assert largest["send_bytes"].low >= 4096
    assert largest["nic_send_bytes"].high == 2047
    assert largest["nic_send_bytes"].count >= STREAM // 1500
    assert found["nic_send_bytes"].total > found["send_bytes"].total


def test_one_interface(quiet):
    """-i: of another interface nothing is counted, nor in another namespace; a name that cannot be one is an error."""
    here, there = quiet
    with (
        netsize.open(interface="veth0", netns=here.path) as one,
        netsize.open(interface="veth1", netns=here.path) as other,
    ):
        datagrams(here, there)
        assert {h.labels["size"]: h.total for h in one()} == {"send_bytes": PACKETS, "nic_send_bytes": PACKETS}
        assert other() == []
    with pytest.raises(InvalidValue, match=r"^--interface: 'eth0/1': an interface's name has 1 to 15 bytes"):
        netsize.build(netsize.TOOL.options(interface="eth0/1"))
