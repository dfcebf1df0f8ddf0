"""tcpdrop: segments to a port where nobody listens, and those that a socket's own filter refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from datetime import datetime

import pytest

from pyebpf.programs import tcpdrop
from pyebpf.programs._drops import NO_REASONS
from tests.support.command import pyebpf, running
from tests.support.namespaces import namespace
from tests.support.needs import lacks, needs
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
# A client that sends a request, closes its half, and then downloads 5,000,011 bytes, twice.
HALF_CLOSED = """
import socket, sys, threading
address = sys.argv[1]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.create_server((address, 4133), family=family) as server:
    for _ in range(2):
        with socket.create_connection((address, 4133)) as client:
            end, _ = server.accept()
            client.sendall(b"GET")
            client.shutdown(socket.SHUT_WR)
            assert end.recv(4) == b"GET" and end.recv(1) == b""
            def serve():
                end.sendall(bytes(5_000_011))
                end.close()
            thread = threading.Thread(target=serve)
            thread.start()
            missing = 5_000_011
            while missing:
                missing -= len(client.recv(65536))
            assert client.recv(1) == b""
            thread.join()
"""
# A process that closes a listener with a connection that it never accepted, which holds 1,009 unread bytes.
UNREAD = """
import socket, sys, time
address = sys.argv[1]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.create_server((address, 4139), family=family) as server:
    with socket.create_connection((address, 4139)) as client:
        client.sendall(b"x" * 1009)
    time.sleep(0.05)
"""


FIELDS = ["time", "pid", "ip_version", "source_address", "source_port", "destination_address", "destination_port"]
FIELDS += ["state", "flags", "reason", "stack"]


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
    found = [
        o
        for o in both.objects()
        if (o["destination_address"], o["destination_port"]) in {("127.0.0.1", PORT), ("::1", PORT)}
    ]
    assert [o["ip_version"] for o in found] == [4] * CONNECTS + [6] * CONNECTS6
    assert {(o["reason"], o["flags"].partition("|")[0], o["state"]) for o in found} == {(REASON, "SYN", None)}
    assert list(found[0]) == FIELDS
    assert len({(o["source_address"], o["source_port"]) for o in found}) == CONNECTS + CONNECTS6
    assert all(any(frame.startswith("tcp_v4_rcv+0x") for frame in o["stack"]) for o in found[:CONNECTS])
    assert all(any(frame.startswith("tcp_v6_rcv+0x") for frame in o["stack"]) for o in found[CONNECTS:])
    six = [o for o in only6.objects() if (o["destination_address"], o["destination_port"]) == ("::1", PORT)]
    assert len(six) == CONNECTS6
    assert {o["ip_version"] for o in only6.objects()} == {6}
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
    mine = [o for o in tool.objects() if 4127 in (o["source_port"], o["destination_port"])]
    # An emulated machine's clock may go back, and then segments come too early for their timestamps.
    real = "TCP_RFC7323_PAWS"
    assert [(o["reason"], o["state"], o["flags"], o["stack"][:8]) for o in mine if o["reason"] != real] == []
    purged = [o for o in every.objects() if 4127 in (o["source_port"], o["destination_port"])]
    assert ("CLOSE", True) in {(o["state"], "FIN" in o["flags"]) for o in purged}


def test_unread_data_of_a_closed_socket(net):
    """The segment with 1,009 bytes that nobody read is reported once, over each family, when it was dropped."""
    needs("kernel:6.1")
    before = time.time()
    with running("tcpdrop", "--json") as tool:
        for address in ("127.0.0.1", "::1"):
            run(net, UNREAD, address)
        after = time.time()
        run(net, CLOSED, "127.0.0.1", "1")  # is printed after them
        tool.await_text("NO_SOCKET")
        tool.stop()
    mine = [o for o in tool.objects() if o["destination_port"] == 4139]
    assert [(o["ip_version"], o["state"], o["flags"]) for o in mine] == [(n, "CLOSE", "PSH|ACK") for n in (4, 6)]
    # The time is that of the drop, not that of reading.
    times = [datetime.fromisoformat(o["time"]).timestamp() for o in mine]
    assert times == sorted(times)
    assert before <= times[0] <= times[1] <= after


def test_acknowledgements_of_a_half_closed_connection_are_no_drops(net):
    """ACKs of a download after shutdown(2) were handled: they are reported with --all only."""
    needs("kernel:6.11")
    with running("tcpdrop", "--json") as tool, running("tcpdrop", "--all", "--json") as every:
        for address in ("127.0.0.1", "::1"):
            run(net, HALF_CLOSED, address)
        run(net, CLOSED, "127.0.0.1", "1")  # is printed after them
        for each in (tool, every):
            each.await_text("NO_SOCKET")
            each.stop()

    def acknowledgements(found):
        mine = [o for o in found if 4133 in (o["source_port"], o["destination_port"])]
        return [(o["ip_version"], o["state"]) for o in mine if (o["reason"], o["flags"]) == ("NOT_SPECIFIED", "ACK")]

    assert {(4, "CLOSE_WAIT"), (6, "CLOSE_WAIT")} <= set(acknowledgements(every.objects()))
    assert acknowledgements(tool.objects()) == []


def test_one_reason(net):
    """Only drops with it are reported; the prefix and capitals may be left out. One that there is not is an error."""
    needs("kernel:5.17")
    with running("tcpdrop", "-r", "no_socket", "--json") as tool, running("tcpdrop", "--json") as every:
        run(net, FILTERED)
        run(net, CLOSED, "127.0.0.1", "1")
        for each in (tool, every):
            each.await_text("NO_SOCKET")
            each.stop()
    assert {o["reason"] for o in tool.objects()} == {"NO_SOCKET"}
    assert {"NO_SOCKET", "SOCKET_FILTER"} <= {o["reason"] for o in every.objects()}
    result = pyebpf("tcpdrop", "-r", "NO_SOCKETS")
    assert result.returncode == 1
    unknown = "--reason: 'NO_SOCKETS' is none of this kernel's reasons"
    assert re.fullmatch(rf"pyebpf tcpdrop: {unknown} \(did you mean NO_SOCKET\b.*\)\n", result.stderr)


def test_reasons_that_the_kernel_does_not_tell():
    """Before Linux 5.17: what to leave out, in one line."""
    lacks("kernel:5.17")
    result = pyebpf("tcpdrop", "-r", "no_socket")
    assert result.returncode == 1
    assert result.stderr == f"pyebpf tcpdrop: {NO_REASONS}\n"


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
