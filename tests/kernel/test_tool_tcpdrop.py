"""tcpdrop: segments to a port where nobody listens, and those that a socket's own filter refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pyebpf.programs import tcpdrop
from tests.support.command import PATIENCE, running
from tests.support.namespaces import namespace

CONNECTS, CONNECTS6 = 17, 13
PORT = 4099
# Connects so often to a port where nobody listens; a datagram to it as well, which is not TCP.
CLOSED = f"""
import socket, sys
address, times = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
for _ in range(times):
    with socket.socket(family, socket.SOCK_STREAM) as end:
        assert end.connect_ex((address, {PORT})) == 111
with socket.socket(family, socket.SOCK_DGRAM) as end:
    end.sendto(b"x", (address, {PORT}))
"""
# A connection whose one end gets a filter that drops everything, and then one segment from the other.
FILTERED = f"""
import ctypes, socket, struct, time
with socket.create_server(("127.0.0.1", {PORT})) as server, socket.create_connection(("127.0.0.1", {PORT})) as client:
    end, _ = server.accept()
    nothing = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))  # ret 0
    program = struct.pack("=HxxxxxxQ", 1, ctypes.addressof(nothing))
    end.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER
    client.send(b"dropped")
    time.sleep(0.05)
    end.setsockopt(socket.SOL_SOCKET, 27, 0)  # SO_DETACH_FILTER
    assert end.recv(100) == b"dropped"  # sent again
    end.close()
"""


@pytest.fixture(scope="module")
def net():
    with namespace() as made:
        yield made


def run(net, script, *arguments):
    subprocess.run(net.inside(sys.executable, "-c", script, *arguments), check=True, timeout=PATIENCE)


def test_segments_to_a_closed_port(net):
    """17 over IPv4 and 13 over IPv6: addresses, flags, no state, the reason, and where in the kernel it was."""
    with running("tcpdrop", "--json") as both, running("tcpdrop", "-6", "--json") as only6, running("tcpdrop") as text:
        run(net, CLOSED, "127.0.0.1", str(CONNECTS))
        run(net, CLOSED, "::1", str(CONNECTS6))
        for tool in (both, only6, text):
            tool.stop()
    found = [o for o in both.objects() if o["DADDR:DPORT"] in {f"127.0.0.1:{PORT}", f"[::1]:{PORT}"}]
    assert [o["IP"] for o in found] == [4] * CONNECTS + [6] * CONNECTS6
    assert {(o["REASON"], o["FLAGS"].partition("|")[0], o["STATE"]) for o in found} == {("NO_SOCKET", "SYN", None)}
    assert list(found[0]) == ["TIME", "PID", "IP", "SADDR:SPORT", "DADDR:DPORT", "STATE", "FLAGS", "REASON", "STACK"]
    assert len({o["SADDR:SPORT"] for o in found}) == CONNECTS + CONNECTS6
    assert all(any(frame.startswith("tcp_v4_rcv+0x") for frame in o["STACK"]) for o in found[:CONNECTS])
    assert all(any(frame.startswith("tcp_v6_rcv+0x") for frame in o["STACK"]) for o in found[CONNECTS:])
    six = [o for o in only6.objects() if o["DADDR:DPORT"] == f"[::1]:{PORT}"]
    assert len(six) == CONNECTS6
    assert {o["IP"] for o in only6.objects()} == {6}
    lines = text.out.splitlines()
    assert lines[0].split() == ["TIME", "PID", "IP", "SADDR:SPORT", "DADDR:DPORT", "STATE", "FLAGS"]
    places = [number for number, line in enumerate(lines) if f" 127.0.0.1:{PORT} " in line]
    assert len(places) == CONNECTS
    for place in places:
        assert lines[place].split()[2] == "4"
        assert lines[place + 1] == "\tNO_SOCKET"
        assert any(line.startswith("\ttcp_v4_rcv+0x") for line in lines[place + 2 : place + 20])
    assert all(len(line) <= 80 for line in lines if not line.startswith("\t"))


def test_the_state_of_the_connection(net):
    """A segment that a filter drops was for an established connection, where the kernel tells which."""
    with tcpdrop.open() as drops:
        run(net, FILTERED)
        for drop in drops:
            if drop.reason == "SOCKET_FILTER" and drop.destination_port == PORT:
                break
    assert drop.flags == "PSH|ACK"
    assert str(drop.source) == str(drop.destination) == "127.0.0.1"
    facts = json.loads(tcpdrop.build(tcpdrop.Options()).facts())["facts"]
    told = facts["has_field struct trace_event_raw_kfree_skb rx_sk"]["answer"]
    assert drop.state == ("ESTABLISHED" if told else None)
    assert not drop.stack[0].startswith(("bpf_", "__traceiter"))
