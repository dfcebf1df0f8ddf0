"""tcpsynbl: the queue of a listener as connections fill it, and those that it has no room for."""

from __future__ import annotations

import contextlib
import re
import runpy
import socket
import struct
import sys
import time
from datetime import datetime

import pytest

from pyebpf.programs import tcpsynbl
from tests.support import handshakes
from tests.support.command import running
from tests.support.needs import needs_functions
from tests.support.python import ROOT
from tests.support.waiting import PATIENCE, wait_until


@pytest.fixture(autouse=True)
def functions():
    """Skip where no function of the kernel can be traced."""
    needs_functions()


def await_queue(server, length):
    """Return once so many connections wait in a listener's queue: connect(2) may return before the last packet came."""

    def waiting():
        # struct tcp_info, whose tcpi_unacked is a listener's queue
        return struct.unpack_from("=I", server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28), 24)[0]

    wait_until(lambda: waiting() == length)


def test_the_queue_grows_by_one_with_each_connection():
    """Nobody accepts: lengths 0 to 6 under the limit 97, and none is dropped."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=97) as server,
        contextlib.ExitStack() as clients,
        tcpsynbl.open() as snapshot,
    ):
        for _ in range(7):
            clients.enter_context(socket.create_connection(server.getsockname(), timeout=PATIENCE))
        await_queue(server, 7)
        (histogram,) = (each for each in snapshot() if each.labels == {"backlog limit": 97})
        assert snapshot.events() == []
    assert [(b.low, b.high, b.count) for b in histogram.rows()] == [(0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 3)]


def test_connections_of_both_families_to_one_listener_count_once():
    """An IPv6 socket that takes IPv4, too: there one of the kernel's functions calls the other."""
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, backlog=89, dualstack_ipv6=True) as server,
        contextlib.ExitStack() as clients,
        tcpsynbl.open() as snapshot,
    ):
        port = server.getsockname()[1]
        for address in ["127.0.0.1"] * 3 + ["::1"] * 2:
            clients.enter_context(socket.create_connection((address, port), timeout=PATIENCE))
        await_queue(server, 5)
        (histogram,) = (each for each in snapshot() if each.labels == {"backlog limit": 89})
    assert histogram.total == 5


def test_versions():
    """-4 and -6: connections over one of them alone, also to a socket of IPv6 that takes both."""
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, backlog=79, dualstack_ipv6=True) as server,
        contextlib.ExitStack() as clients,
        tcpsynbl.open(ipv4=True) as four,
        tcpsynbl.open(ipv6=True) as six,
    ):
        port = server.getsockname()[1]
        for address in ["127.0.0.1"] * 3 + ["::1"] * 2:
            clients.enter_context(socket.create_connection((address, port), timeout=PATIENCE))
        await_queue(server, 5)
        found = [[each for each in snapshot() if each.labels == {"backlog limit": 79}] for snapshot in (four, six)]
    assert [[histogram.total for histogram in each] for each in found] == [[3], [2]]


@pytest.mark.machine(modules=("tun",))
def test_a_connection_that_finds_the_queue_full_is_dropped(make_namespace):
    """Two complete, then two that were let in while there was room: the queue takes a third, and drops the last.

    So it does with five SYNs. As many packets are reported as the kernel counts.
    """
    space = make_namespace()
    before = time.time()
    with running("tcpsynbl", "--json") as tool:
        counted = int(space.run(sys.executable, handshakes.__file__, "2", "5"))
        after = time.time()
        tool.await_text('"remote_port": 4004')  # a drop is printed before the histograms
        assert "buckets" not in tool.out
        tool.stop()
    found = tool.objects()
    drops, histograms = found[:counted], found[counted:]
    (buckets,) = (each["buckets"] for each in histograms if each["backlog_limit"] == 2)
    assert [(b["low"], b["high"], b["count"]) for b in buckets if b["count"]] == [(0, 0, 1), (1, 1, 1), (2, 3, 2)]
    times = [drop.pop("time") for drop in drops]
    assert times == sorted(times)
    # Those of the drops, not of reading.
    assert before <= datetime.fromisoformat(times[0]).timestamp()
    assert datetime.fromisoformat(times[-1]).timestamp() <= after
    assert {drop.pop("local_port") > 1023 for drop in drops} == {True}
    packets = [("ACK", 3001), *(("SYN", 4000 + number) for number in range(5))]
    assert drops == [
        {
            "packet": kind, "remote_address": "10.249.0.2", "remote_port": port, "local_address": "10.249.0.1",
            "length": 3, "limit": 2,
        }
        for kind, port in packets
    ]  # fmt: skip


def test_the_example_of_the_docs(monkeypatch, capsys):
    """docs/examples/syn_backlog.py prints the same histogram."""

    def work(_):
        monkeypatch.undo()
        with socket.create_server(("127.0.0.1", 0), backlog=83) as server, contextlib.ExitStack() as clients:
            for _ in range(5):
                clients.enter_context(socket.create_connection(server.getsockname(), timeout=PATIENCE))
            await_queue(server, 5)

    monkeypatch.setattr(sys, "argv", ["syn_backlog.py"])
    monkeypatch.setattr(time, "sleep", work)
    runpy.run_path(str(ROOT / "docs" / "examples" / "syn_backlog.py"), run_name="__main__")
    out = capsys.readouterr().out
    found = out.partition("limit 83\n")[2]
    assert re.findall(r"^ *(\d+) -> \d+ +: (\d+)", found, re.MULTILINE)[:4] == [
        ("0", "1"),
        ("1", "1"),
        ("2", "2"),
        ("4", "1"),
    ]
