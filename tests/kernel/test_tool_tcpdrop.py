"""tcpdrop: segments to a port where nobody listens, and those that a socket's own filter refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from pyebpf.programs import tcpdrop
from tests.support.command import pyebpf, running
from tests.support.namespaces import namespace
from tests.support.needs import needs
from tests.support.release import kernel_release
from tests.support.waiting import PATIENCE

CONNECTS, CONNECTS6 = 17, 13
REASON = "NO_SOCKET" if kernel_release() >= (5, 17) else "-"  # older kernels tell none
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
# So many sessions with 1,009 bytes each way, ended by the client, every second one by shutdown(2) first.
HEALTHY = """
import socket, sys, threading
address, times = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.create_server((address, 4127), family=family) as server:
    def serve():
        for _ in range(times):
            end, _ = server.accept()
            with end:
                while data := end.recv(4096):
                    end.sendall(data)
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    for number in range(times):
        with socket.create_connection((address, 4127)) as end:
            end.sendall(b"x" * 1009)
            missing = 1009
            while missing:
                missing -= len(end.recv(4096))
            if number % 2:
                end.shutdown(socket.SHUT_WR)
                assert end.recv(1) == b""
    thread.join()
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
    assert {(o["REASON"], o["FLAGS"].partition("|")[0], o["STATE"]) for o in found} == {(REASON, "SYN", None)}
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
        assert lines[place + 1] == f"\t{REASON}"
        assert any(line.startswith("\ttcp_v4_rcv+0x") for line in lines[place + 2 : place + 20])
    assert all(len(line) <= 80 for line in lines if not line.startswith("\t"))


def test_healthy_sessions_have_no_drops(net):
    """47 over each family: nothing is reported for them, but with --all what the closed sockets had in their queues."""
    needs("kernel:5.17")
    with running("tcpdrop", "--json") as tool, running("tcpdrop", "--all", "--json") as every:
        for address in ("127.0.0.1", "::1"):
            run(net, HEALTHY, address, "47")
        run(net, CLOSED, "127.0.0.1", "1")  # is printed after them
        for each in (tool, every):
            each.await_text("NO_SOCKET")
            each.stop()
    mine = [o for o in tool.objects() if ":4127" in o["SADDR:SPORT"] + o["DADDR:DPORT"]]
    # An emulated machine's clock may go back, and then segments come too early for their timestamps.
    real = "TCP_RFC7323_PAWS"
    assert [(o["REASON"], o["STATE"], o["FLAGS"], o["STACK"][:8]) for o in mine if o["REASON"] != real] == []
    purged = [o for o in every.objects() if ":4127" in o["SADDR:SPORT"] + o["DADDR:DPORT"]]
    assert ("CLOSE", True) in {(o["STATE"], "FIN" in o["FLAGS"]) for o in purged}


def test_one_reason(net):
    """Only drops with it are reported; the prefix and capitals may be left out. One that there is not is an error."""
    needs("kernel:5.17")
    with running("tcpdrop", "-r", "no_socket", "--json") as tool, running("tcpdrop", "--json") as every:
        run(net, FILTERED)
        run(net, CLOSED, "127.0.0.1", "1")
        for each in (tool, every):
            each.await_text("NO_SOCKET")
            each.stop()
    assert {o["REASON"] for o in tool.objects()} == {"NO_SOCKET"}
    assert {"NO_SOCKET", "SOCKET_FILTER"} <= {o["REASON"] for o in every.objects()}
    result = pyebpf("tcpdrop", "-r", "NO_SOCKETS")
    assert result.returncode == 1
    assert re.fullmatch(
        r"pyebpf tcpdrop: .*'SKB_DROP_REASON_NO_SOCKETS'.*SKB_DROP_REASON_NO_SOCKET .*\n", result.stderr
    )


def test_the_state_of_the_connection(net):
    """A segment that a filter drops was for an established connection, where the kernel tells which."""
    needs("kernel:5.17")
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
