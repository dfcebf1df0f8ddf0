"""ipecn: datagrams whose sender sets Congestion Encountered, through loopback, a veth pair and a tag of a VLAN."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from datetime import datetime

import pytest

from pyebpf.packet import checksum
from pyebpf.programs import ipecn
from tests.support.command import running
from tests.support.namespaces import namespace
from tests.support.needs import needs
from tests.support.traffic import connect, inside, udp_frame
from tests.support.waiting import PATIENCE

MARKED, MARKED6, TAGGED = 17, 13, 5
QUEUES = (
    "root handle 1: tbf rate 1mbit burst 4kb limit 1mb",
    "parent 1: handle 2: fq_codel target 1ms interval 10ms ecn",
)
COLUMNS = ["TIME", "DIR", "IFACE", "IP", "SADDR", "DADDR"]
FIELDS = ["time", "direction", "interface", "ip_version", "source_address", "destination_address"]
# So many datagrams over IPv4 and IPv6 with CE, and as many with each of the other values of the field.
SEND = f"""
import socket, sys
v4, v6 = sys.argv[1:]
for family, level, option, address, count in (
    (socket.AF_INET, socket.IPPROTO_IP, socket.IP_TOS, v4, {MARKED}),
    (socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_TCLASS, v6, {MARKED6}),
):
    with socket.socket(family, socket.SOCK_DGRAM) as end:
        for value in (0, 1, 2, 3, 0xB8):
            end.setsockopt(level, option, value)
            for _ in range(count):
                end.sendto(b"x", (address, 7901))
"""


@pytest.fixture(scope="module")
def net():
    """Two joined namespaces, with addresses of both families."""
    with namespace() as here, namespace() as there:
        connect(here, there)
        for space, number in ((here, 1), (there, 2)):
            space.configure(f"address add fd00:251::{number}/64 dev veth0 nodad")
        yield here, there


def send(space, v4, v6):
    subprocess.run(space.inside(sys.executable, "-c", SEND, v4, v6), check=True, timeout=PATIENCE)


def told(objects):
    """Packets by all but their time."""
    found = {}
    for each in objects:
        key = tuple(each[name] for name in FIELDS[1:])
        found[key] = found.get(key, 0) + 1
    return found


def test_marked_datagrams_over_loopback(net):
    """17 over IPv4 and 13 over IPv6 go out and come in; those with other values are not shown. Text, JSON, CSV."""
    here, _ = net
    before = time.time()
    with (
        running("ipecn", "--netns", here.path) as text,
        running("ipecn", "--netns", here.path, "--json") as objects,
        running("ipecn", "--netns", here.path, "--csv") as rows,
    ):
        send(here, "127.0.0.1", "::1")
        after = time.time()
        for tool in (text, objects, rows):
            tool.stop()
    found = objects.objects()
    assert told(found) == {
        ("out", "lo", 4, "127.0.0.1", "127.0.0.1"): MARKED,
        ("in", "lo", 4, "127.0.0.1", "127.0.0.1"): MARKED,
        ("out", "lo", 6, "::1", "::1"): MARKED6,
        ("in", "lo", 6, "::1", "::1"): MARKED6,
    }
    assert list(found[0]) == list(rows.rows()[0]) == FIELDS
    assert told({**row, "ip_version": int(row["ip_version"])} for row in rows.rows()) == told(found)
    times = [datetime.fromisoformat(each["time"]).timestamp() for each in found]
    assert before <= min(times) <= max(times) <= after
    heading, *lines = text.out.splitlines()
    assert heading.split() == COLUMNS
    assert [line.split()[1:] for line in lines] == [[str(each[name]) for name in FIELDS[1:]] for each in found]
    assert all(len(line) <= 80 for line in [heading, *lines])


def counted(bpf):
    """Packets that are there, by direction, interface and addresses."""
    found = {}
    for each in bpf["marks"].poll(0):
        key = each.direction, each.interface, str(each.source), str(each.destination)
        found[key] = found.get(key, 0) + 1
    return found


def probes(**options):
    return ipecn.build(ipecn.Options(**options))


def test_directions_devices_and_families(net):
    """--in, --out, -4, -6 and -i each keep what they name, of packets from one namespace to the other."""
    here, there = net
    with (
        probes(netns=here.path) as sender,
        probes(netns=there.path) as taker,
        probes(netns=here.path, incoming=True) as back,
        probes(netns=here.path, outgoing=True, ipv6=True) as six,
        probes(netns=there.path, ipv4=True, interface="veth0") as four,
        probes(netns=there.path, interface="veth1") as none,
    ):
        send(here, "10.251.0.2", "fd00:251::2")
        counts = [counted(each) for each in (sender, taker, back, six, four, none)]
    to4, to6 = ("veth0", "10.251.0.1", "10.251.0.2"), ("veth0", "fd00:251::1", "fd00:251::2")
    # What nobody listens for comes back as an ICMP error, which is not marked.
    assert counts == [
        {("out", *to4): MARKED, ("out", *to6): MARKED6},
        {("in", *to4): MARKED, ("in", *to6): MARKED6},
        {},
        {("out", *to6): MARKED6},
        {("in", *to4): MARKED},
        {},
    ]


def test_a_tag_that_the_device_leaves_in_place(net):
    """5 frames of VLAN 5 with the mark are seen as they come in, by the header behind the tag."""
    here, there = net
    plain = udp_frame(7901)
    header = bytearray(plain[14:34])
    header[1] = 3
    header[10:12] = bytes(2)
    header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
    tagged = b"\xff" * 6 + bytes(6) + b"\x81\x00\x00\x05\x08\x00" + bytes(header) + plain[34:]
    with probes(netns=there.path, incoming=True) as bpf:
        with inside(here), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as end:
            end.bind(("veth0", 0))
            for _ in range(TAGGED):
                end.send(tagged)
        assert counted(bpf) == {("in", "veth0", "10.251.0.1", "10.251.0.2"): TAGGED}


@pytest.mark.machine(modules=("dummy", "sch_tbf", "sch_fq_codel"))
def test_marks_of_this_machines_own_queue(net):
    """Packets that fq_codel marks behind a slow tbf go out marked: as many as it says."""
    needs("module:dummy", "module:sch_tbf", "module:sch_fq_codel", "command:tc")
    with namespace() as space:
        space.disable_ipv6()
        space.configure(
            "link add dummy0 type dummy",
            "address add 10.250.0.1/24 dev dummy0",
            "link set dummy0 up",
            "neighbour replace 10.250.0.2 lladdr 52:54:00:00:00:09 dev dummy0 nud permanent",
        )
        for queue in QUEUES:
            space.run("tc", "qdisc", "add", "dev", "dummy0", *queue.split())
        with probes(netns=space.path) as bpf:
            with inside(space), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)
                for _ in range(101):
                    end.sendto(bytes(1000), ("10.250.0.2", 9))
            time.sleep(2)  # 101,000 bytes at 125,000 a second
            marked = counted(bpf)
        told = space.run("tc", "-s", "qdisc", "show", "dev", "dummy0", "parent", "1:")
    count = int(re.search(r"ecn_mark (\d+)", told)[1])
    assert count > 0
    assert marked == {("out", "dummy0", "10.250.0.1", "10.250.0.2"): count}
