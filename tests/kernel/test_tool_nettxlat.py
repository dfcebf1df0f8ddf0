"""nettxlat: packets that QEMU's network card sends, each timed once, and those of devices that hand packets on."""

from __future__ import annotations

import pytest

from pyebpf.programs import nettxlat
from tests.support.command import running
from tests.support.namespaces import namespace
from tests.support.needs import needs
from tests.support.traffic import connect, receiver, send, settled
from tests.support.waiting import wait_until

PACKETS, OTHERS = 101, 17


@pytest.fixture
def quiet():
    """Two namespaces in which nothing is sent but by the test."""
    with namespace() as here, namespace() as there:
        for each in (here, there):
            each.disable_ipv6()
        yield here, there


def datagrams(here, there, address, count):
    with receiver(there, 7907) as end:
        send(here, (address, 7907), count)
        assert settled(end, count) == count


@pytest.mark.machine(devices=("nic",))
def test_packets_of_a_card(cards):
    """101 datagrams are 101 times, as text, JSON and CSV, and by device; none of the card that got them."""
    here, there, card = cards
    with (
        running("nettxlat", "0.5") as text,
        running("nettxlat", "--devices", "0.5", "--json") as by_device,
        running("nettxlat", "-m", "-i", card, "0.5", "--csv") as one,
        running("nettxlat", "-i", "other", "--json") as other,
    ):
        datagrams(here, there, "10.252.0.2", PACKETS)

        def told() -> int:
            return sum(o["buckets"][n]["count"] for o in by_device.objects() for n in range(len(o["buckets"])))

        # The card may keep the last ones until its next interrupt.
        wait_until(lambda: told() == PACKETS, told)
        for tool in (text, by_device, one, other):
            tool.stop()
    assert {o["device"] for o in by_device.objects()} == {card}
    assert {o["unit"] for o in by_device.objects()} == {"usecs"}
    assert sum(int(row["count"]) for row in one.rows()) == PACKETS
    assert {row["unit"] for row in one.rows()} == {"msecs"}
    assert [b for o in other.objects() for b in o["buckets"]] == []
    counts = [int(line.partition(":")[2].split()[0]) for line in text.out.splitlines() if " -> " in line]
    assert sum(counts) == PACKETS
    # The time is the card's: less than the whole test took.
    assert all(b["low"] < 60_000_000 for o in by_device.objects() for b in o["buckets"] if b["count"])


def test_devices_that_hand_packets_on_are_not_timed(quiet):
    """Of a veth pair and loopback there is nothing, with --all neither: nobody frees those packets as sent."""
    here, there = quiet
    connect(here, there)
    with (
        nettxlat.open(netns=here.path) as default,
        nettxlat.open(netns=here.path, all=True) as everything,
    ):
        datagrams(here, there, "10.251.0.2", OTHERS)
        datagrams(here, here, "127.0.0.1", OTHERS)
        assert [h.total for h in default()] == [0]
        assert [h.total for h in everything()] == [0]


@pytest.mark.machine(modules=("dummy",))
def test_devices_without_hardware(quiet):
    """A dummy frees what it is given: 17 times with --all, none without."""
    needs("module:dummy")
    here, _ = quiet
    here.configure(
        "link add dummy0 type dummy",
        "address add 10.250.0.1/24 dev dummy0",
        "link set dummy0 up",
        "neighbour replace 10.250.0.2 lladdr 52:54:00:00:00:09 dev dummy0 nud permanent",
    )
    with (
        nettxlat.open(netns=here.path) as default,
        nettxlat.open(netns=here.path, all=True, by_device=True) as everything,
    ):
        send(here, ("10.250.0.2", 9), OTHERS)
        assert [h.total for h in default()] == [0]
        assert [(h.labels, h.total) for h in everything()] == [({"device": "dummy0"}, OTHERS)]
