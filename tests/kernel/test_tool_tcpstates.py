"""tcpstates: every change of state of sessions of a known number, with the time in each state."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise

import pytest

from pyebpf.programs import tcpstates
from tests.support.command import running
from tests.support.waiting import wait_until

CLIENT = ["CLOSE", "SYN_SENT", "ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2", "CLOSE"]
SERVER = ["LISTEN", "SYN_RECV", "ESTABLISHED", "CLOSE_WAIT", "LAST_ACK", "CLOSE"]
SESSIONS = {"127.0.0.1": 23, "::1": 17}
REFUSED = 7
WAIT = 0.1


def sessions(address):
    """Run sessions that the client closes first; return the listener's port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        port = listener.getsockname()[1]
        for _ in range(SESSIONS[address]):
            client = socket.create_connection((address, port))
            server, _ = listener.accept()
            with server:
                client.close()
                assert server.recv(1) == b""
    return port


def of(port, records):
    return [record for record in records if port in (record["local_port"], record["remote_port"])]


def changes(states):
    return list(pairwise(states))


@pytest.mark.parametrize("address", SESSIONS)
def test_each_change(address):
    """Both ends go through all states, the listener through its two; text and JSON tell the same."""
    with (
        running("tcpstates", "--json", "-t") as objects,
        running("tcpstates") as text,
        running("tcpstates", "-w") as wide,
    ):
        port = sessions(address)
        for tool in (objects, text, wide):
            tool.stop()
    found = of(port, objects.objects())
    count = SESSIONS[address]
    expected = Counter(dict.fromkeys((*changes(CLIENT), *changes(SERVER)), count))
    expected.update({("CLOSE", "LISTEN"): 1, ("LISTEN", "CLOSE"): 1})
    assert Counter((record["old_state"], record["new_state"]) for record in found) == expected
    histories = defaultdict(list)
    for record in found:
        histories[record["socket_address"]].append(record["new_state"])
    seen = Counter(" ".join(states).count("SYN") for states in histories.values())
    assert sum(states.count("CLOSE") for states in histories.values()) == 2 * count + 1
    assert sum(number * many for number, many in seen.items()) == 2 * count
    # The connection has a local port once a SYN is sent.
    assert {r["local_port"] for r in found if r["new_state"] == "SYN_SENT"} == {0}
    assert all(r["local_port"] and r["remote_port"] for r in found if r["new_state"] == "ESTABLISHED")
    assert {r["current_pid"] for r in found if r["new_state"] in ("SYN_SENT", "LISTEN", "FIN_WAIT1")} == {os.getpid()}
    assert objects.objects()[0]["elapsed_ns"] == 0
    times = [datetime.fromisoformat(record["time"]).timestamp() for record in found]
    # The time of day is the boot clock's and their distance, which an emulated machine measures to some 0.1 ms.
    for record, at in zip(found, times, strict=True):
        assert record["elapsed_ns"] - found[0]["elapsed_ns"] == pytest.approx((at - times[0]) * 1e9, abs=1_000_000)
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["C-PID", "LADDR", "LPORT", "RADDR", "RPORT", "MS", "OLDSTATE", "->", "NEWSTATE"]
    assert len(heading) <= 80
    mine = [line.split() for line in lines if str(port) in line.split()]
    assert [(line[6], line[8]) for line in mine] == [(r["old_state"], r["new_state"]) for r in found]
    assert [line[5] == "-" for line in mine] == [r["duration_ns"] is None for r in found]
    heading, *lines = wide.out.splitlines()
    assert heading.split()[:3] == ["SKADDR", "C-PID", "C-COMM"]
    shown = [line.split() for line in lines if str(port) in line.split()]
    assert [f"0x{line[0]}" for line in shown] == [record["socket_address"] for record in found]


def test_the_time_in_each_state():
    """A session that is held for a while was ESTABLISHED for at least that, and no longer than it took in all."""
    with tcpstates.open(remote_ports=()) as records, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        began = time.monotonic_ns()
        with socket.create_connection(("127.0.0.1", port)), listener.accept()[0]:
            time.sleep(WAIT)
        whole = time.monotonic_ns() - began
        found = []
        wait_until(
            lambda: found.append(next(records)) or (found[-1].old_state, found[-1].new_state) == ("LAST_ACK", "CLOSE")
        )
    left = [
        r.duration for r in found if r.old_state == "ESTABLISHED" and port in (r.ends.local_port, r.ends.remote_port)
    ]
    assert len(left) == 2
    assert all(WAIT * 10**9 <= each <= whole for each in left)
    first = [r for r in found if r.ends.remote_port == port and r.new_state == "SYN_SENT"]
    assert [r.duration for r in first] == [None]


def test_filters():
    """By ports, address and version: of refused connections both changes, of others none."""
    with (
        tcpstates.open(remote_ports=(4099,), ipv4=True) as refused,
        tcpstates.open(remote_ports=(4099,), ipv6=True) as none,
        tcpstates.open(remote_ports=(4099,), address="192.0.2.0/24") as nobody,
        tcpstates.open(local_ports=(1,)) as other,
    ):
        for _ in range(REFUSED):
            with socket.socket() as end:
                assert end.connect_ex(("127.0.0.1", 4099)) != 0
        found = [next(refused) for _ in range(2 * REFUSED)]
    assert Counter((r.old_state, r.new_state) for r in found) == {
        ("CLOSE", "SYN_SENT"): REFUSED,
        ("SYN_SENT", "CLOSE"): REFUSED,
    }
    assert [*none, *nobody, *other] == []
