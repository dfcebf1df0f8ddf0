"""skbdrop: frames with bad headers, each dropped at a place of its own, and the kernel's own counts of them."""

from __future__ import annotations

import re
import socket
import time

import pytest

from pyebpf.packet import ETH_P_IP
from pyebpf.programs import _drops, skbdrop
from tests.support.command import pyebpf, running
from tests.support.folded import parse_folded
from tests.support.namespaces import namespace
from tests.support.needs import lacks, needs
from tests.support.release import kernel_release
from tests.support.traffic import connect, inside, udp_frame

WRONG_SUMS, WRONG_VERSIONS = 17, 13
ETH_P_IPV6 = 0x86DD
TOLD = kernel_release() >= (6, 0)  # older kernels tell no reason of these, or none at all


@pytest.fixture(scope="module")
def net():
    """Two joined namespaces."""
    with namespace() as here, namespace() as there:
        connect(here, there)
        yield here, there


def spoilt(net):
    """17 frames whose IPv4 checksum is wrong, and 13 of IPv6 with the version 7, from one namespace to the other."""
    here, there = net
    address = there.run("ip", "-brief", "link", "show", "veth0").split()[2]
    destination = bytes.fromhex(address.replace(":", ""))
    frame = udp_frame(9)
    wrong_sum = destination + bytes(6) + ETH_P_IP.to_bytes(2, "big") + frame[14:24] + b"\xab\xcd" + frame[26:]
    wrong_version = destination + bytes(6) + ETH_P_IPV6.to_bytes(2, "big") + b"\x70" + bytes(63)
    with inside(here), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as end:
        end.bind(("veth0", 0))
        for made, count in ((wrong_sum, WRONG_SUMS), (wrong_version, WRONG_VERSIONS)):
            for _ in range(count):
                end.send(made)


def places(found):
    """Packets that the input of IPv4 and IPv6 dropped, by protocol: others drop them elsewhere."""
    counts = {4: 0, 6: 0}
    for count, stack in found:
        for version, pattern in ((4, r"ip_rcv(_core)?\b"), (6, r"ip6_rcv_core|ipv6_rcv\b")):
            if any(re.match(pattern, frame) for frame in stack[:3]):
                counts[version] += count
    return counts


def test_drops_by_place_and_the_counters(net):
    """17 and 13, as text, JSON and CSV; the reason where the kernel tells it; what the kernel counted meanwhile."""
    there = net[1]
    prefix = there.inside()
    with (
        running("skbdrop", prefix=prefix) as text,
        running("skbdrop", "--json") as objects,
        running("skbdrop", "--depth", "2", "--csv") as rows,
    ):
        spoilt(net)
        for tool in (text, objects, rows):
            tool.stop()
    found = objects.objects()
    assert places((o["count"], o["stack"]) for o in found) == {4: WRONG_SUMS, 6: WRONG_VERSIONS}
    assert {len(o["stack"]) <= 8 for o in found} == {True}
    if TOLD:
        assert sum(o["count"] for o in found if o["reason"] == "IP_CSUM") == WRONG_SUMS
    short = [(int(row["count"]), row["stack"].split(";")) for row in rows.rows()]
    assert places(short) == {4: WRONG_SUMS, 6: WRONG_VERSIONS}
    assert {len(stack) <= 2 for _, stack in short} == {True}
    table, _, counters = text.out.partition("\nNETWORK COUNTER")
    assert table.split("\n")[1].split() == ["COUNT", "REASON"]
    changed = {name: int(change) for name, change in (line.split() for line in counters.splitlines()[1:])}
    assert changed["IpExtInCsumErrors"] == changed["IpInHdrErrors"] == WRONG_SUMS
    assert changed["Ip6InHdrErrors"] == WRONG_VERSIONS
    # The second witness: nstat's difference from nothing, for a namespace of the test's own.
    told = dict(line.split()[:2] for line in there.run("nstat", "-asz").splitlines()[1:])
    assert int(told["IpExtInCsumErrors"]) >= WRONG_SUMS
    assert set(changed) <= set(told)
    assert all(len(line) <= 80 for line in text.out.splitlines() if not line.startswith("\t"))


def test_intervals_and_reasons(net):
    """Each call of the library has its own drops; -r keeps the reasons that it names."""
    needs("kernel:6.1")
    with skbdrop.open() as every, skbdrop.open(reasons=("ip_csum",)) as one:
        spoilt(net)
        first = [(row.count, row.stack) for row in every()]
        again = [(row.count, row.stack) for row in every()]
        assert {row.reason for row in one()} == {"IP_CSUM"}
    assert places(first) == {4: WRONG_SUMS, 6: WRONG_VERSIONS}
    assert places(again) == {4: 0, 6: 0}
    assert [count for count, _ in first] == sorted(count for count, _ in first)


def test_folded_lines(net):
    """-f has the packets below their reason, the innermost function last."""
    with running("skbdrop", "-f") as folded:
        spoilt(net)
        folded.stop()
    stacks = parse_folded(folded.out.splitlines())
    assert places((count, stack[:0:-1]) for stack, count in stacks.items()) == {4: WRONG_SUMS, 6: WRONG_VERSIONS}
    if TOLD:
        assert sum(count for stack, count in stacks.items() if stack[0] == "IP_CSUM") == WRONG_SUMS


def test_stacks_of_a_recording(net, tmp_path):
    """They are those of all intervals, though each interval has its own rows."""
    path = tmp_path / "drops.rec"
    with running("skbdrop", "0.2", "--record", str(path)) as recorded:
        spoilt(net)
        time.sleep(0.5)
        spoilt(net)
        recorded.stop()
    stacks = parse_folded(pyebpf("show", str(path), "-f").stdout.splitlines())
    found = places((count, stack[:0:-1]) for stack, count in stacks.items())
    assert found == {4: 2 * WRONG_SUMS, 6: 2 * WRONG_VERSIONS}


def test_a_reason_that_there_is_not():
    """The option, what was given, and the reasons like it."""
    needs("kernel:6.1")
    result = pyebpf("skbdrop", "-r", "no_socket,No_Sockt")
    message = "pyebpf skbdrop: --reason: 'No_Sockt' is none of this kernel's reasons (did you mean NO_SOCKET"
    assert (result.returncode, result.stderr[: len(message)], "SK_RST" in result.stderr) == (1, message, False)
    assert pyebpf("tcpdrop", "-r", "x" * 40).stderr.endswith("is none of this kernel's reasons\n")


def test_reasons_that_the_kernel_does_not_tell():
    """Before Linux 5.17: what to leave out, in one line, as tcpdrop says it."""
    lacks("kernel:5.17")
    result = pyebpf("skbdrop", "-r", "no_socket")
    assert (result.returncode, result.stderr) == (1, f"pyebpf skbdrop: {_drops.NO_REASONS}\n")
